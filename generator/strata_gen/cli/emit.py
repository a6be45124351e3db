"""`strata-gen emit`: write the generated sources of some targets."""

from __future__ import annotations

from pathlib import Path

import click

from strata_gen.cli.main import EXIT_USER_ERROR
from strata_gen.cli.target_options import Selection, each, listed, target_options
from strata_gen.layout import shown
from strata_gen.tree import Tree
from strata_gen.write import write_tree


@click.command()
@target_options()
@click.option("-v", "--verbose", is_flag=True, help="Name every file that was written or removed.")
@click.pass_context
def command(
    ctx: click.Context,
    backend: str,
    archs: tuple[str, ...],
    set_values: dict[str, str],
    out: Path | None,
    specs: tuple[Path, ...],
    verbose: bool,
) -> None:
    """Write the generated sources of one target, compiling nothing.

    Files whose content is unchanged are not touched; files that are emitted no more are removed.

    \b
    strata-gen emit --target cpu native
    strata-gen emit --target cuda sm_86 sm_90
    """
    selection = Selection(backend, archs, set_values, out, specs)

    def write(_arch: str, tree: Tree) -> None:
        folder = selection.layout(tree).tree
        changes = write_tree(folder, tree.files, tree.target, tree.spec_hash)
        counts = f"{len(changes.written)} written, {len(changes.removed)} removed, {len(changes.unchanged)} unchanged"
        click.echo(f"{tree.target}: {counts} in {shown(folder)}")
        lines = [*listed(changes.new, "+"), *listed(changes.changed, "~"), *listed(changes.removed, "-")]
        lines = lines if verbose else []
        for line in [*lines, *listed(changes.foreign, "? left alone, not ours:")]:
            click.echo(line)

    ctx.exit(EXIT_USER_ERROR if each(selection, write) else 0)
