"""`strata-gen targets`: the support matrix."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from strata_gen.cli.options import spec_options
from strata_gen.model.specset import SpecSet
from strata_gen.model.support import Cell, support_matrix
from strata_gen.model.target import Target
from strata_gen.resolve import targets_in_order
from strata_gen.specs import load_specs

_BUILT = "built"


def _title(target: Target) -> str:
    return f"{target.backend} {target.name}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _table(specs: SpecSet, cells: Iterable[Cell]) -> Iterator[str]:
    """Yield a line per target and a column per kernel; a refusal is the number of a reason below the table."""
    refusals = {(cell.target.name, cell.kernel.name): cell.refusal for cell in cells}
    reasons = {reason: f"[{number}]" for number, reason in enumerate(filter(None, dict.fromkeys(refusals.values())), 1)}
    kernels = [kernel.name for kernel in specs.kernels]
    rows = [["target", *kernels, "devices"]]
    for target in targets_in_order(specs.targets):
        marks = [reasons[why] if (why := refusals[target.name, kernel]) else _BUILT for kernel in kernels]
        rows.append([_title(target), *marks, target.help])
    yield from _aligned(rows)
    yield ""
    yield from (f"{number} refused: {reason}" for reason, number in reasons.items())


def _summary(cells: Sequence[Cell]) -> str:
    built = sum(cell.refusal is None for cell in cells)
    return f"{len(cells)} pairs of kernel and target: {built} built, {len(cells) - built} refused"


def _json(cells: Iterable[Cell]) -> str:
    rows = [
        {
            "backend": cell.target.backend,
            "target": cell.target.name,
            "kernel": cell.kernel.name,
            "built": cell.refusal is None,
            "reason": cell.refusal or "",
        }
        for cell in cells
    ]
    return json.dumps(rows, indent=2)


@click.command("targets")
@spec_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print an array of cells: backend, target, kernel, built, reason."
)
def command(specs: tuple[Path, ...], as_json: bool) -> None:
    """Show the support matrix: every kernel on every target, built or refused with its reason."""
    loaded = load_specs(specs)
    cells = support_matrix(loaded)
    if as_json:
        click.echo(_json(cells))
        return
    for line in _table(loaded, cells):
        click.echo(line)
    click.echo(_summary(cells))
