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
) -> dict[str, str | Given]:
    """Take short flags out of a command's parameters; return them with the other knobs' texts, by dotted name.

    names: knobs by the flags that stand for them. Raises `UserError`, in the words of the short flags, for a value that
    its knob does not take.
    """
    texts, infos = dict(flags), {info.name: info for info in knobs}
    for name, knob in names.items():
        text = given.pop(name)
        if text is None:
            continue
        if knob in texts:
            raise click.UsageError(f"--{name} and --{knob.replace('.', '-')} are the same setting: give one of them.")
        texts[knob] = Given(text, Origin(Source.COMMAND_LINE, f"--{name}"))
        try:
            parse(infos[knob], text)
        except KnobError as problem:
            raise UserError(f"--{name}: {problem}") from None
    return texts
