"""What was given by each source, as text with its origin, before anything is parsed."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from strata_runtime.errors import UserError
from strata_runtime.knobs.grammar import trimmed
from strata_runtime.knobs.info import KnobInfo, Origin, Source
from strata_runtime.nearest import did_you_mean


@dataclass(frozen=True, slots=True)
class Given:
    """One text for one knob, and where it stood."""

    text: str
    origin: Origin


# Python refuses to write much longer numbers as text.
_MOST_BITS = 1000

Layer = Mapping[str, Given]
"""What one source gave, by dotted knob name. Blank texts are left out: blank is "unset"."""


Flags = Mapping[str, str | Given]
"""Texts by dotted knob name, as a command line gives them; `Given` where the user typed something else than the flag
that a knob's name makes."""


def _layer(pairs: Iterable[tuple[KnobInfo, str, Origin]]) -> Layer:
    return {knob.name: Given(text, origin) for knob, text, origin in pairs if trimmed(text)}


def from_environment(knobs: Iterable[KnobInfo], environ: Mapping[str, str]) -> Layer:
    """Read the variables of `knobs`."""
    return _layer((k, environ[k.env], Origin(Source.ENVIRONMENT, k.env)) for k in knobs if k.env in environ)


def from_command_line(knobs: Iterable[KnobInfo], flags: Flags) -> Layer:
    """Read flag texts by dotted knob name, as `strata_runtime.knobs.flags.command_line` returns them."""
    given = ((knob, typed(knob, flags[knob.name])) for knob in knobs if knob.name in flags)
    return _layer((knob, found.text, found.origin) for knob, found in given)


def typed(knob: KnobInfo, flag: str | Given) -> Given:
    """Return what a flag gives: a plain text comes from the flag that the knob's name makes."""
    return flag if isinstance(flag, Given) else Given(flag, Origin(Source.COMMAND_LINE, knob.flag))


def from_python(knobs: Sequence[KnobInfo], arguments: Mapping[str, object]) -> Layer:
    """Read keyword arguments (`pool_threads=4`; the dotted name works as well). None is "unset".

    Numbers for bytes and durations count in bytes and nanoseconds. Raises `UserError` for a name that no knob has
    and for a value that no text of the grammar expresses.
    """
    by_name = {name: knob for knob in knobs for name in (knob.field, knob.name)}
    pairs: list[tuple[KnobInfo, str, Origin]] = []
    for name, value in arguments.items():
        knob = by_name.get(name)
        if knob is None:
            raise UserError(f"there is no setting '{name}'{did_you_mean(name, by_name)}")
        pairs.append((knob, _python_text(knob, value), Origin(Source.PYTHON)))
    return _layer(pairs)


def _python_text(knob: KnobInfo, value: object) -> str:
    text = plain_text(knob, os.fspath(value) if isinstance(value, os.PathLike) else value)
    is_bare_duration = knob.type == "duration" and isinstance(value, int) and not isinstance(value, bool)
    return f"{text}ns" if is_bare_duration else text


def plain_text(knob: KnobInfo, value: object) -> str:
    """Return a text for a value of Python or TOML: text, a number, a bool, or a sequence of texts for a list knob."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise UserError(f"{knob.name}: a whole number of {value.bit_length()} bits does not fit in 64 bits")
    if isinstance(value, str | int | float):
        return str(value)
    if knob.type == "list" and isinstance(value, Sequence) and all(_is_item(item) for item in value):
        return ",".join(value)
    raise UserError(f"{knob.name}: {value!r} is not a value for a knob of type {knob.type}")


def _is_item(item: object) -> bool:
    return isinstance(item, str) and item != "" and trimmed(item) == item and "," not in item
