"""Short flags for drafts, for commands that generate text: `--draft` and `--spec`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import click

from strata_runtime.errors import UserError
from strata_runtime.knobs import Flags, Given, KnobInfo, Origin, Source
from strata_runtime.knobs.grammar import KnobError, parse

_Function = TypeVar("_Function", bound=Callable[..., object])

_KNOBS = {"draft": "window.draft", "spec": "window.width"}
_AUTO = {"spec": "auto"}  # a word for 0


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
    texts, infos = dict(flags), {info.name: info for info in knobs}
    for name, knob in _KNOBS.items():
        text = given.pop(name)
        if text is None:
            continue
        if knob in texts:
            raise click.UsageError(f"--{name} and --{knob.replace('.', '-')} are the same setting: give one of them.")
        auto = _AUTO.get(name)
        plain = "0" if text == auto else text
        texts[knob] = Given(plain, Origin(Source.COMMAND_LINE, f"--{name}"))
        try:
            parse(infos[knob], plain)
        except KnobError as problem:
            raise UserError(f"--{name}: {problem}{f', or give {auto}' if auto else ''}") from None
    return texts
