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


def _keep_format(ctx: click.Context, _parameter: click.Parameter, value: str) -> str:
    ctx.meta[FORMAT_KEY] = value
    return value


def _default_roots(_ctx: click.Context, _parameter: click.Parameter, value: tuple[Path, ...]) -> tuple[Path, ...]:
    return value or (specs_root(),)


def spec_options(function: _Function) -> _Function:
    """Add `--specs DIR` (repeatable; passed as `specs: tuple[Path, ...]`) and `--format` (handled by the group).

    A command gets `specs` only. One that has output of its own in several formats reads `chosen_format()`.
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
    return click.option(
        "--specs",
        type=click.Path(path_type=Path, file_okay=False),
        multiple=True,
        callback=_default_roots,
        metavar="DIR",
        help="A folder of specs; repeat to read several together. Default: the project's own.",
    )(with_format)


def chosen_format() -> str:
    """Return the `--format` of the running command: text, json or github."""
    return str(click.get_current_context().meta.get(FORMAT_KEY, "text"))
