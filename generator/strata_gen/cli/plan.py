"""`strata-gen plan`: what a build would do, and why."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from strata_gen.cli.main import EXIT_USER_ERROR
from strata_gen.cli.target_options import Selection, each, listed, target_options
from strata_gen.foresee import Foresight, foresee
from strata_gen.progress import Reporter, counted
from strata_gen.record import Estimate
from strata_gen.tree import Tree


def _predicted(expected: Estimate) -> list[str]:
    took = f"{expected.seconds:.0f} s" if expected.seconds < 120 else f"{expected.seconds / 60:.0f} min"
    basis = f"{expected.measured} of {counted(expected.sources, 'file')} measured on this machine before"
    size = f"a module of {expected.module_bytes / (1 << 20):.1f} MiB"
    return [f"predicted: about {took} with {counted(expected.jobs, 'job')}, {size} ({basis})"]


def _render(seen: Foresight) -> list[str]:
    changes = seen.changes
    lines = [f"{seen.target}: {seen.package}"]
    if changes.written or changes.removed:
        lines.append(f"files: {len(changes.new)} new, {len(changes.changed)} changed, {len(changes.removed)} removed")
        lines += [*listed(changes.new, "+"), *listed(changes.changed, "~"), *listed(changes.removed, "-")]
    else:
        lines.append(f"files: {len(changes.unchanged)}, none would change")
    lines += listed(changes.foreign, "? left alone, not ours:")
    if seen.refusal:
        return [*lines, f"compile: {seen.refusal}"]
    lines.append(f"key: {seen.key[:12]} ({seen.state})")
    lines.append(f"compile: {counted(len(seen.recompiled), 'file')}")
    lines += _predicted(seen.estimate) if seen.estimate else []
    return lines + [f"  {row.source}: {', '.join(row.because)}" for row in seen.recompiled]


@click.command()
@target_options()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.pass_context
def command(
    ctx: click.Context,
    backend: str,
    archs: tuple[str, ...],
    set_values: dict[str, str],
    out: Path | None,
    specs: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show what a build of one target would do, and why. Nothing is written.

    Lists the files that would change, the sources that would be compiled with the input that is the reason, and
    whether the package is in place or in the artifact cache. The predicted time and size are those of what was built
    on this machine, as far as something was.
    """
    selection = Selection(backend, archs, set_values, out, specs)
    reporter = Reporter(sys.stderr)
    rows: list[Foresight] = []

    def look(_arch: str, tree: Tree) -> None:
        seen = foresee(tree, selection.layout(tree), os.environ, reporter)
        rows.append(seen)
        if not as_json:
            click.echo("\n".join(_render(seen)))

    refused = each(selection, look)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2))
    ctx.exit(EXIT_USER_ERROR if refused else 0)
