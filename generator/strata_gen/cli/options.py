"""Options that every command which reads specs has in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import click

from strata_gen.cli.main import FORMAT_KEY
from strata_gen.diagnostics import RENDERERS
from strata_gen.paths import specs_root

_Function = TypeVar("_Function", bound=Callable[..., object])
_ALONE_KEY = "strata_gen.specs_alone"


def _keep_format(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    ctx.meta[FORMAT_KEY] = value
    return value


def _keep_alone(ctx: click.Context, _parameter: click.Parameter, value: bool) -> None:
    ctx.meta[_ALONE_KEY] = value


def _roots(ctx: click.Context, _parameter: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    if ctx.meta[_ALONE_KEY]:
        if not value:
            raise click.UsageError("--specs-alone needs --specs DIR")
        return value
    own = specs_root()
    return (own, *(root for root in value if root.resolve() != own))


def spec_options(function: _Function) -> _Function:
    """Add `--specs DIR`, `--specs-alone` and `--format` (handled by the group).

    A command gets `specs: tuple[Path, ...]` only: the folders to read, the project's own first. One that has
    output of its own in several formats reads `chosen_format()`.
    """
    with_format = click.option(
        "--format",
        type=click.Choice(list(RENDERERS)),
        default="text",
        show_default=True,
        expose_value=False,
        is_eager=True,
        callback=_keep_format,
        help="How errors in the specs are printed.",
    )(function)
    with_alone = click.option(
        "--specs-alone",
        is_flag=True,
        expose_value=False,
        is_eager=True,
        callback=_keep_alone,
        help="Read the folders of --specs alone, without the project's own.",
    )(with_format)
    return click.option(
        "--specs",
        type=click.Path(path_type=Path, file_okay=False),
        multiple=True,
        callback=_roots,
        metavar="DIR",
        help="A folder of specs of your own, read together with the project's; repeat for several.",
    )(with_alone)


def chosen_format() -> str:
    """Return the `--format` of the running command: text, json or github."""
    return str(click.get_current_context().meta.get(FORMAT_KEY, "text"))
