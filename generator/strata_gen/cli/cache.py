"""`strata-gen cache`: what the artifact cache holds."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import click

from strata_gen.cache import ArtifactCache, age, cache_root

_MIB = 1 << 20


def _cache() -> ArtifactCache:
    return ArtifactCache(cache_root(os.environ))


_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def command() -> None:
    """List or clear the cache of built packages."""


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
