"""Short flags that stand for knobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

from strata_runtime.errors import UserError
from strata_runtime.knobs import Flags, Given, KnobInfo, Origin, Source
from strata_runtime.knobs.grammar import KnobError, parse


def with_short_flags(
    flags: Flags,
    given: dict[str, Any],
    knobs: Sequence[KnobInfo],
    names: Mapping[str, str],
    words: Mapping[str, str] | None = None,
) -> dict[str, str | Given]:
    """Take short flags out of a command's parameters; return them with the other knobs' texts, by dotted name.

    names: knobs by the flags that stand for them. words: by flag, a word for 0. Raises `UserError`, in the words of the
    short flags, for a value that its knob does not take.
    """
    texts, infos = dict(flags), {info.name: info for info in knobs}
    for name, knob in names.items():
        text = given.pop(name)
        if text is None:
            continue
        if knob in texts:
            raise click.UsageError(f"--{name} and --{knob.replace('.', '-')} are the same setting: give one of them.")
        word = (words or {}).get(name)
        plain = "0" if text == word else text
        texts[knob] = Given(plain, Origin(Source.COMMAND_LINE, f"--{name}"))
        try:
            parse(infos[knob], plain)
        except KnobError as problem:
            raise UserError(f"--{name}: {problem}{f', or give {word}' if word else ''}") from None
    return texts
