"""`strata-gen build`: compile kernels packages."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

import click

from strata_gen.build import BuildRequest, BuildResult, build
from strata_gen.cli.main import EXIT_USER_ERROR
from strata_gen.cli.target_options import Selection, each, target_options
from strata_gen.failures import BuildFailure
from strata_gen.progress import Reporter
from strata_gen.tree import Tree

EXIT_BUILD_FAILED = 1


def _built(arch: str, result: BuildResult) -> dict[str, object]:
    return {"arch": arch, **asdict(result), "path": str(result.path), "seconds": round(result.seconds, 3)}


def _failed(arch: str, failure: BuildFailure) -> dict[str, object]:
    return {"arch": arch, "how": "failed", "error": failure.line, "hint": failure.hint, "log": str(failure.log)}


@click.command()
@target_options()
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at once. Default: by cores and free memory.")
@click.option("--no-cache", is_flag=True, help="Neither take the package from the artifact cache nor store it there.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as one JSON array on stdout.")
@click.option("-v", "--verbose", is_flag=True, help="Show the compiler commands and everything they say.")
@click.pass_context
def command(
    ctx: click.Context,
    backend: str,
    archs: tuple[str, ...],
    set_values: dict[str, str],
    out: Path | None,
    specs: tuple[Path, ...],
    jobs: int | None,
    no_cache: bool,
    as_json: bool,
    verbose: bool,
) -> None:
    """Emit, compile and import-check the kernels package of one target.

    Several architectures are built one after the other; one that fails stops no other. Exit code: 0 when all are
    built, 1 when a compile failed, 2 when a target or a setting was wrong.

    \b
    strata-gen build --target cpu native
    strata-gen build --target cpu x86-64-v3 x86-64-v4
    """
    selection = Selection(backend, archs, set_values, out, specs)
    reporter = Reporter(sys.stderr)
    rows: list[dict[str, object]] = []
    failed = False

    def run(arch: str, tree: Tree) -> None:
        nonlocal failed
        request = BuildRequest(
            tree, selection.layout(tree), jobs, not no_cache, verbose, emit_command=selection.emit_command(arch)
        )
        try:
            result = build(request, reporter, os.environ)
        except BuildFailure as failure:
            failed = True
            rows.append(_failed(arch, failure))
            click.echo(failure.render(), err=True)
            return
        rows.append(_built(arch, result))
        click.echo(result.render(), err=as_json)

    refused = each(selection, run)
    if as_json:
        rows += [{"arch": arch, "how": "refused", "error": problem.what} for arch, problem in refused.items()]
        click.echo(json.dumps(rows, indent=2))
    ctx.exit(EXIT_BUILD_FAILED if failed else EXIT_USER_ERROR if refused else 0)
