"""Short flags for drafts, for commands that generate text: `--draft` and `--spec`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import click

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


def with_drafts(flags: Mapping[str, str], given: dict[str, Any]) -> dict[str, str]:
    """Take the flags out of a command's parameters; return them with the other knobs' texts, by dotted name."""
    texts = dict(flags)
    for name, knob in _KNOBS.items():
        text = given.pop(name)
        if text is None:
            continue
        if knob in texts:
            raise click.UsageError(f"--{name} and --{knob.replace('.', '-')} are the same setting: give one of them.")
        texts[knob] = "0" if text == "auto" else text
    return texts
