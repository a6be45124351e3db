"""`strata-gen explain`: what an error code means."""

from __future__ import annotations

import click

from strata_gen.codes import CODES
from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError


@click.command("explain")
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Say what the error CODE means, with a wrong and a right example; without CODE, list them all."""
    if code is None:
        for entry in CODES.values():
            click.echo(f"{entry.code}  {entry.title}")
        return
    found = CODES.get(code.upper())
    if found is None:
        hint = did_you_mean(code.upper(), CODES)
        raise GeneratorError(f"unknown code '{code}'", mend=hint or "'strata-gen explain' lists every code")
    click.echo(found.render())
