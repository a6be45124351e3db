"""`strata-gen schema`: JSON Schema of every kind of spec, for editors that complete and check."""

from __future__ import annotations

from pathlib import Path

import click

from strata_gen.paths import require_checkout
from strata_gen.schema import schema_files


@click.command("schema")
@click.option(
    "--output",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder to write to. Default: specs/schema of the checkout.",
)
@click.option("--check", is_flag=True, help="Write nothing; list files that differ, and exit with 1 if there are any.")
def command(output: Path | None, check: bool) -> None:
    """Write the JSON Schema of every kind of spec."""
    folder = output or require_checkout("name the folder to write to: --output DIR") / "specs" / "schema"
    stale = []
    for name, text in schema_files().items():
        path = folder / name
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            stale.append(path)
            if not check:
                folder.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", newline="\n")
    for path in stale:
        click.echo(f"{'stale' if check else 'wrote'} {path}")
    if check and stale:
        click.echo("run 'strata-gen schema'", err=True)
        click.get_current_context().exit(1)
