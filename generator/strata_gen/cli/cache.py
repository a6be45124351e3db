"""`strata-gen cache`: what the artifact cache holds."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import click

from strata_gen.cache import ArtifactCache, age, cache_root
from strata_gen.cli.main import EXIT_USER_ERROR
from strata_gen.cli.target_options import Selection, each, target_options
from strata_gen.foresee import Explanation, explain_key
from strata_gen.tree import Tree

_MIB = 1 << 20
EXIT_DAMAGED = 1


def _cache() -> ArtifactCache:
    return ArtifactCache(cache_root(os.environ))


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """List, check, thin out or clear the cache of built packages, or say why it does not have one."""


@command.command("list")
@_json_option
def list_(as_json: bool) -> None:
    """List the cached packages, the most recently used first."""
    entries = _cache().entries()
    if as_json:
        click.echo(json.dumps([asdict(entry) for entry in entries], indent=2))
        return
    for entry in entries:
        click.echo(f"{entry.key[:12]}  {entry.bytes / _MIB:7.1f} MiB  {age(entry):>7} ago  {entry.package}")
    total = sum(entry.bytes for entry in entries) / _MIB
    click.echo(f"{len(entries)} packages, {total:.1f} MiB of at most {_cache().budget / _MIB:.0f} MiB")


@command.command("path")
@_json_option
def path(as_json: bool) -> None:
    """Print the folder of the cache."""
    root = str(_cache().root)
    click.echo(json.dumps({"path": root}) if as_json else root)


@command.command("verify")
@_json_option
@click.pass_context
def verify(ctx: click.Context, as_json: bool) -> None:
    """Compare every cached package with its hashes. Exits with 1 when one is damaged; a build moves it aside."""
    found = _cache().problems()
    if as_json:
        click.echo(json.dumps([{**asdict(entry), "problem": problem} for entry, problem in found], indent=2))
    else:
        for entry, problem in found:
            click.echo(f"{entry.key[:12]}  {entry.package}: {problem or 'whole'}")
    ctx.exit(EXIT_DAMAGED if any(problem for _, problem in found) else 0)


@command.command("prune")
@click.option(
    "--days", type=click.IntRange(min=0), default=30, show_default=True, help="Drop what was not used for so long."
)
@click.option("--max-mib", type=click.IntRange(min=0), help="Then drop the least recently used beyond this size.")
@_json_option
def prune(days: int, max_mib: int | None, as_json: bool) -> None:
    """Remove damaged packages, and those that were not used for a while."""
    cache = _cache() if max_mib is None else ArtifactCache(_cache().root, max_mib * _MIB)
    before, oldest = cache.entries(), time.time() - days * 86400
    for entry, problem in cache.problems():
        if problem or entry.used < oldest:
            cache.drop(entry.key)
    cache.trim()
    kept = {entry.key for entry in cache.entries()}
    dropped = [entry for entry in before if entry.key not in kept]
    freed = sum(entry.bytes for entry in dropped)
    if as_json:
        click.echo(json.dumps({"removed": [entry.key for entry in dropped], "bytes": freed}))
    else:
        click.echo(f"removed {len(dropped)} packages, {freed / _MIB:.1f} MiB; {len(kept)} kept")


@command.command("why")
@target_options()
@_json_option
@click.pass_context
def why(
    ctx: click.Context,
    backend: str,
    archs: tuple[str, ...],
    set_values: dict[str, str],
    out: Path | None,
    specs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Say whether the package of a target is cached, and what differs from the nearest one that is.

    What is named are parts of the build key: a compiler, flags, Python, or a file of the emitted tree.
    """
    rows: list[Explanation] = []

    def look(_arch: str, tree: Tree) -> None:
        rows.append(explain_key(tree, _cache(), os.environ))
        if not as_json:
            click.echo(rows[-1].render())

    refused = each(Selection(backend, archs, set_values, out, specs), look)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    ctx.exit(EXIT_USER_ERROR if refused else 0)


@command.command("clear")
@_json_option
def clear(as_json: bool) -> None:
    """Remove every cached package."""
    cache = _cache()
    count, freed = len(cache.entries()), cache.clear()
    if as_json:
        click.echo(json.dumps({"removed": count, "bytes": freed}))
    else:
        click.echo(f"removed {count} packages, {freed / _MIB:.1f} MiB")
