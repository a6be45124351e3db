"""What `emit`, `plan` and `build` have in common: the target, build-time values, the output folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import click

from strata_gen.cli.options import spec_options
from strata_gen.errors import GeneratorError
from strata_gen.layout import Layout, layout_of
from strata_gen.paths import specs_root
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.tree import Tree, make_tree

_Function = TypeVar("_Function", bound=Callable[..., object])


def _values(_ctx: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    values: dict[str, str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"'{text}' is not KNOB=VALUE")
        if values.setdefault(name, value) != value:
            raise click.BadParameter(f"'{name}' is set twice, to '{values[name]}' and '{value}'")
    return values


def target_options(*, required: bool = True) -> Callable[[_Function], _Function]:
    """Add `--target BACKEND ARCH...`, `--set KNOB=VALUE`, `--out DIR` and the options of the specs.

    A command gets `backend`, `archs`, `set_values`, `out` and `specs`; without `required`, perhaps None and no archs.
    """
    return lambda function: _with_target_options(function, required)


def _with_target_options(function: _Function, required: bool) -> _Function:
    function = spec_options(function)
    function = click.option(
        "--out",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Output folder. Default: build/ of the checkout, or of the working directory outside one.",
    )(function)
    function = click.option(
        "--set",
        "set_values",
        multiple=True,
        callback=_values,
        metavar="KNOB=VALUE",
        help="Set a build-time knob; repeat for several.",
    )(function)
    function = click.option(
        "--target",
        "backend",
        required=required,
        metavar="BACKEND",
        help="cpu, cuda or hip, followed by the architectures.",
    )(function)
    archs = "ARCH..." if required else "[ARCH...]"
    return click.argument("archs", nargs=-1, required=required, metavar=archs)(function)


@dataclass(frozen=True, slots=True)
class Selection:
    """The targets that a command line names, and where their output goes."""

    backend: str
    archs: tuple[str, ...]
    set_values: Mapping[str, str]
    out: Path | None
    specs: tuple[Path, ...]
    """The folders of specs, the project's own among them unless it was left out."""

    def trees(self) -> list[tuple[str, Tree | GeneratorError]]:
        """Render one tree per architecture. An architecture that is refused gives its error and stops no other.

        Raises `SpecErrors` when the specs themselves are wrong.
        """
        loaded = load_specs(self.specs)
        found: list[tuple[str, Tree | GeneratorError]] = []
        for arch in dict.fromkeys(self.archs):
            try:
                target = find_target(loaded, self.backend, arch)
                found.append((arch, make_tree(make_plan(loaded, target, self.set_values), self.specs)))
            except GeneratorError as problem:
                found.append((arch, problem))
        return found

    def layout(self, tree: Tree) -> Layout:
        """Return where a tree's output goes."""
        return layout_of(tree.plan, self.out.resolve() if self.out else None)

    def emit_command(self, arch: str) -> tuple[str, ...]:
        """Return the command that emits one architecture again, independent of the working directory."""
        run = "from strata_gen.cli.main import main; main()"
        words = [sys.executable, "-c", run, "emit", "--target", self.backend, arch]
        words += [word for root in self.specs for word in ("--specs", str(root.resolve()))]
        words += [] if specs_root() in self.specs else ["--specs-alone"]
        words += [word for name, value in self.set_values.items() for word in ("--set", f"{name}={value}")]
        return (*words, *(("--out", str(self.out.resolve())) if self.out else ()))


def each(selection: Selection, work: Callable[[str, Tree], None]) -> dict[str, GeneratorError]:
    """Do `work` for every architecture, printing user errors as they come; return them by architecture."""
    refused = {}
    for arch, tree in selection.trees():
        try:
            if isinstance(tree, GeneratorError):
                raise tree
            work(arch, tree)
        except GeneratorError as problem:
            click.echo(problem.render(), err=True)
            refused[arch] = problem
    return refused


def listed(paths: Sequence[str], mark: str) -> list[str]:
    """Return one line per path, each behind `mark`."""
    return [f"  {mark} {path}" for path in paths]
