"""`strata-gen wheel`: packages as wheels."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from strata_gen.build import BuildRequest, build
from strata_gen.cli.build import EXIT_BUILD_FAILED
from strata_gen.cli.main import EXIT_USER_ERROR
from strata_gen.cli.target_options import Selection, each, target_options
from strata_gen.failures import BuildFailure
from strata_gen.layout import shown
from strata_gen.paths import default_dist, require_checkout
from strata_gen.progress import Reporter
from strata_gen.tree import Tree
from strata_gen.wheel.archive import Wheel, wheel_bytes, write_wheel
from strata_gen.wheel.checks import MIB, SIZE_LIMIT_MIB, check_disjoint, check_import, check_module, check_size
from strata_gen.wheel.kernels import kernels_wheel, read_module, refuse_for_this_machine
from strata_gen.wheel.project import project_wheel


class _Writer:
    """Writes wheels into one folder and remembers what it wrote."""

    def __init__(self, dist: Path, max_mib: int, as_json: bool) -> None:
        self.dist, self.max_mib, self.as_json = dist, max_mib, as_json
        self.rows: list[dict[str, object]] = []

    def write(self, wheel: Wheel, data: bytes) -> None:
        check_size(wheel, data, self.max_mib)
        check_disjoint(wheel, self.dist)
        path = write_wheel(wheel, data, self.dist)
        self.rows.append({"distribution": wheel.name, "version": wheel.version, "path": str(path), "bytes": len(data)})
        click.echo(f"wrote {shown(path)} ({len(data) / MIB:.1f} MiB)", err=self.as_json)

    def project(self, key: str) -> None:
        wheel = project_wheel(require_checkout("get a checkout: it holds what these wheels are made of"), key)
        self.write(wheel, wheel_bytes(wheel, os.environ))

    def kernels(self, tree: Tree, request: BuildRequest, reporter: Reporter) -> None:
        refuse_for_this_machine(tree.plan)
        built = build(request, reporter, os.environ)
        click.echo(built.render(), err=True)
        module = read_module(built.path)
        check_module(module, tree.plan)
        wheel = kernels_wheel(tree.plan, built.path, module)
        data = wheel_bytes(wheel, os.environ)
        check_import(data, tree.plan, request.layout.logs / "wheel.log", reporter)
        self.write(wheel, data)


@click.command()
@target_options(required=False)
@click.option("--core", is_flag=True, help="The runtime: 'strata-runtime', pure Python.")
@click.option("--generator", is_flag=True, help="The generator: 'strata-gen' with specs, templates and sources.")
@click.option(
    "--dist",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Folder for the wheels. Default: dist/ of the checkout, or of the working directory outside one.",
)
@click.option(
    "--max-mib",
    type=click.IntRange(min=1),
    default=SIZE_LIMIT_MIB,
    show_default=True,
    help="Refuse to write a larger wheel.",
)
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at once. Default: by cores and free memory.")
@click.option("--no-cache", is_flag=True, help="Neither take the package from the artifact cache nor store it there.")
@click.option("--json", "as_json", is_flag=True, help="Print an array of what was written on stdout.")
@click.pass_context
def command(
    ctx: click.Context,
    backend: str | None,
    archs: tuple[str, ...],
    set_values: dict[str, str],
    out: Path | None,
    specs: tuple[Path, ...],
    core: bool,
    generator: bool,
    dist: Path | None,
    max_mib: int,
    jobs: int | None,
    no_cache: bool,
    as_json: bool,
) -> None:
    """Build kernels packages and write each as a wheel; with --core and --generator the Python packages too.

    A wheel is written when only the declared architecture is inside, it needs nothing that systems of its platform tag
    may lack, it imports without a GPU and without a home to write to, and no other of our wheels has one of its files.
    The same sources give the same bytes; SOURCE_DATE_EPOCH sets the time inside. Exit codes are those of build.

    \b
    strata-gen wheel --target cuda sm_86
    strata-gen wheel --core --generator --target cpu x86-64-v3
    """
    if bool(archs) != (backend is not None) or not (archs or core or generator):
        raise click.UsageError("name what to write: --target BACKEND ARCH..., --core or --generator")
    reporter, writer = Reporter(sys.stderr), _Writer(dist or default_dist(), max_mib, as_json)
    for key in [key for key, wanted in (("core", core), ("generator", generator)) if wanted]:
        writer.project(key)
    selection = Selection(backend or "", archs, set_values, out, specs)
    failed = False

    def run(arch: str, tree: Tree) -> None:
        nonlocal failed
        again = selection.emit_command(arch)
        request = BuildRequest(tree, selection.layout(tree), jobs, not no_cache, emit_command=again)
        try:
            writer.kernels(tree, request, reporter)
        except BuildFailure as failure:
            failed = True
            click.echo(failure.render(), err=True)

    refused = each(selection, run)
    if as_json:
        click.echo(json.dumps(writer.rows, indent=2))
    ctx.exit(EXIT_BUILD_FAILED if failed else EXIT_USER_ERROR if refused else 0)
