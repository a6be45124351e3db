"""`strata-gen reference`: write the committed files that are made from the specs, or check that they are current."""

from __future__ import annotations

from pathlib import Path

import click

from strata_gen.cli.options import spec_options
from strata_gen.paths import require_checkout
from strata_gen.reference import stale_pages, write_pages
from strata_gen.specs import load_specs


@click.command("reference")
@spec_options
@click.option("--check", is_flag=True, help="Write nothing; exit with 1, naming them, when files are stale.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to write below instead of the checkout.",
)
def command(specs: tuple[Path, ...], check: bool, out: Path | None) -> None:
    """Write the reference pages and the types of settings from the specs.

    The pages lie under docs/reference, the types in runtime/strata_runtime/_settings.pyi.
    """
    root = out or require_checkout("name the folder to write to: --out DIR")
    stale = stale_pages(load_specs(specs), root)
    if not check:
        write_pages(stale, root)
    for path in stale:
        click.echo(f"stale: {path}" if check else f"wrote {path}")
    if check and stale:
        click.echo("run 'strata-gen reference' and commit what it writes", err=True)
        click.get_current_context().exit(1)
