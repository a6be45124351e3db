"""`strata-gen doctor`: what is here, what is missing, and what installs it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import click

from strata_gen.cli.main import EXIT_USER_ERROR
from strata_gen.cli.options import spec_options
from strata_gen.doctor import Finding, buildable, machine
from strata_gen.errors import GeneratorError
from strata_gen.installed import packages_here, packages_wanted
from strata_gen.model.specset import SpecSet
from strata_gen.resolve import Plan, find_target, make_plan
from strata_gen.specs import load_specs


def _plan(specs: SpecSet, backend: str, arch: str) -> Plan | Finding:
    try:
        return make_plan(specs, find_target(specs, backend, arch), {})
    except GeneratorError as problem:
        return Finding(f"{backend} {arch}", "", problem.what, problem.mend)


def _lines(findings: Sequence[Finding]) -> Iterator[str]:
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        mark = "ok" if finding.is_fine else "--"
        yield f"{mark}  {finding.name.ljust(width)}  {finding.found if finding.is_fine else finding.problem}"
        if finding.mend:
            yield f"    {' ' * width}  fix: {finding.mend}"


@click.command()
@spec_options
@click.option("--target", "backend", default="cpu", show_default=True, metavar="BACKEND", help="cpu, cuda or hip.")
@click.argument("archs", nargs=-1, metavar="[ARCH...]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object: machine, packages and targets.")
@click.pass_context
def command(ctx: click.Context, specs: tuple[Path, ...], backend: str, archs: tuple[str, ...], as_json: bool) -> None:
    """Show what building and running needs, what of it this machine has, and what installs the rest.

    Then every kernels package that is installed or built, with the reason why it would be taken or not, and the command
    that installs the one for each GPU here.

    Without an architecture it asks for `native`. Exit code: 0 when every target asked for can be built here, else 2.

    \b
    strata-gen doctor
    strata-gen doctor --target cuda sm_86
    """
    loaded = load_specs(specs)
    asked = [_plan(loaded, backend, arch) for arch in dict.fromkeys(archs or ("native",))]
    found = tuple(machine(tuple(plan for plan in asked if isinstance(plan, Plan)), os.environ))
    packages = (*packages_here(os.environ), *packages_wanted(loaded, os.environ))
    targets = tuple(buildable(plan, os.environ) if isinstance(plan, Plan) else plan for plan in asked)
    if as_json:
        groups = {"machine": found, "packages": packages, "targets": targets}
        rows = {name: [{**asdict(row), "ok": row.is_fine} for row in group] for name, group in groups.items()}
        click.echo(json.dumps(rows, indent=2))
    else:
        click.echo("\n".join((*_lines(found), "", *_lines(packages), "", *_lines(targets))))
    ctx.exit(0 if all(target.is_fine for target in targets) else EXIT_USER_ERROR)
