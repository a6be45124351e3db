"""Short flags for drafts, for commands that generate text: `--draft` and `--spec`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from strata_runtime.cli.short_flags import with_short_flags
from strata_runtime.knobs import Flags, Given, KnobInfo

_Function = TypeVar("_Function", bound=Callable[..., object])

_KNOBS = {"draft": "window.draft", "spec": "window.width"}


def draft_options(command: _Function) -> _Function:
    """Add the flags to a command."""
    width = click.option(
        "--spec",
        metavar="T|auto",
        help="Tokens that one pass checks, drafts with the newest one; auto chooses by measurement. [--window-width]",
    )
    draft = click.option(
        "--draft", metavar="NAME", help="Who drafts: ngram, mtp, or none. The text stays the same. [--window-draft]"
    )
    return draft(width(command))


def with_drafts(flags: Flags, given: dict[str, Any], knobs: Sequence[KnobInfo]) -> dict[str, str | Given]:
    """Take the flags out of a command's parameters; return them with the other knobs' texts, by dotted name.

    Raises `UserError`, in the words of the short flags, for a value that its knob does not take.
    """
    return with_short_flags(flags, given, knobs, _KNOBS)
