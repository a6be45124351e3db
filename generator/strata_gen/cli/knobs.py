"""`strata-gen knobs`: every knob with what is derived from it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from strata_gen.cli.options import spec_options
from strata_gen.model.knob import Knob
from strata_gen.model.values import show_value_of
from strata_gen.specs import load_specs

_HEAD = ("name", "variable", "flag", "type", "default", "affects", "help")


def _row(knob: Knob) -> tuple[str, ...]:
    kind = " | ".join(knob.choices) if knob.choices else " | ".join([knob.type.value, *dict(knob.words)])
    default = show_value_of(knob, knob.default) or '""'
    return (knob.name, knob.env, knob.flag, kind, default, knob.affects.value, knob.help)


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = (
        "  ".join((*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1])) for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def _object(knob: Knob) -> dict[str, object]:
    return {
        "name": knob.name,
        "variable": knob.env,
        "flag": knob.flag,
        "type": knob.type.value,
        "choices": list(knob.choices),
        "words": dict(knob.words),
        "default": list(knob.default) if isinstance(knob.default, tuple) else knob.default,
        "affects": knob.affects.value,
        "output": knob.output.value,
        "help": knob.help,
    }


@click.command("knobs")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON array (bytes and nanoseconds as numbers).")
@spec_options
def command(specs: tuple[Path, ...], as_json: bool) -> None:
    """List every knob with its variable, flag, type and default."""
    knobs = load_specs(specs).knobs
    if as_json:
        click.echo(json.dumps([_object(knob) for knob in knobs], indent=2))
    else:
        click.echo(_table([_HEAD, *(_row(knob) for knob in knobs)]))
