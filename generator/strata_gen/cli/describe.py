"""`strata-gen describe`: what a name means."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from strata_gen.cli.options import spec_options
from strata_gen.describe import Describer, Description, Listed
from strata_gen.specs import load_specs


def _text(description: Description) -> Iterator[str]:
    yield f"{description.name}: {description.status}"
    yield ""
    width = max(len(fact.key) for fact in description.facts)
    for fact in description.facts:
        lines = [*fact.lines, *([fact.where] if fact.where else [])]
        for key, line in zip([fact.key, *[""] * len(lines)], lines, strict=False):
            yield f"  {key.ljust(width)}  {line}"


def _list(rows: Sequence[Listed]) -> Iterator[str]:
    width = max(len(row.name) for row in rows)
    yield from (f"{row.name.ljust(width)}  {row.status}" for row in rows)


def _object(description: Description) -> dict[str, object]:
    facts = [{"key": fact.key, "text": list(fact.lines), "where": fact.where} for fact in description.facts]
    return {"name": description.name, "status": description.status, "facts": facts}


@click.command("describe")
@click.argument("name", default="")
@click.option("--json", "as_json", is_flag=True, help="Print one object (name, status, facts), or an array of them.")
@spec_options
def command(name: str, as_json: bool, specs: tuple[Path, ...]) -> None:
    """Explain every part of the kernel instance NAME.

    The begin of a name, or a pattern with '*', lists the instances that it stands for; without NAME, all of them. A
    kernel, format, instruction set, target or knob is explained too.
    """
    found = Describer(load_specs(specs)).describe(name)
    if isinstance(found, Description):
        click.echo(json.dumps(_object(found), indent=2) if as_json else "\n".join(_text(found)))
    else:
        click.echo(json.dumps([asdict(row) for row in found], indent=2) if as_json else "\n".join(_list(found)))
