"""Values of knobs: from what a spec holds to what a knob holds, and whether it fits."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from strata_gen.diagnostics import did_you_mean
from strata_gen.load.scalars import WrittenFloat, WrittenInt
from strata_gen.model.knob import Knob, KnobType, KnobValue, Range
from strata_gen.model.units import parse_bytes, parse_duration, show_bytes, show_duration

NUMERIC = frozenset({KnobType.INT, KnobType.FLOAT, KnobType.BYTES, KnobType.DURATION})
"""Types whose values have an order, and may have a range."""

_KIND_WORDS: Mapping[KnobType, str] = {
    KnobType.BOOL: "true or false",
    KnobType.INT: "a whole number",
    KnobType.FLOAT: "a number",
    KnobType.ENUM: "one of its choices",
    KnobType.STR: "text",
    KnobType.BYTES: "a size such as 512MiB",
    KnobType.DURATION: "a time such as 250ms",
    KnobType.PATH: "a path",
    KnobType.LIST: "a list of words",
}


class BadValue(ValueError):
    """A value that a knob cannot hold. `hint` stands behind the caret; `kind` is type, range or choices."""

    def __init__(self, kind: str, message: str, hint: str = "") -> None:
        self.kind, self.hint = kind, hint
        super().__init__(message)


def _text(raw: object) -> str | None:
    if isinstance(raw, WrittenInt | WrittenFloat):
        return raw.raw
    return raw if isinstance(raw, str) else None


def _quantity(parse: Callable[[str], int]) -> Callable[[object], KnobValue]:
    def read(raw: object) -> KnobValue:
        text = _text(raw)
        if text is None:
            return int(raw) if isinstance(raw, int) and not isinstance(raw, bool) else None
        try:
            return parse(text)
        except ValueError as problem:
            raise BadValue("type", str(problem)) from None

    return read


def _read_bool(raw: object) -> KnobValue:
    return raw if isinstance(raw, bool) else None


def _read_int(raw: object) -> KnobValue:
    return int(raw) if isinstance(raw, int) and not isinstance(raw, bool) else None


def _read_float(raw: object) -> KnobValue:
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        return None
    if not math.isfinite(raw):
        raise BadValue("type", "the value must be finite")
    return float(raw)


def _read_list(raw: object) -> KnobValue:
    if isinstance(raw, str):
        return tuple(word.strip() for word in raw.split(",")) if raw.strip() else ()
    if not isinstance(raw, list | tuple):
        return None
    words = [_text(item) for item in raw]
    if any(word is None or "," in word or word != word.strip() or not word for word in words):
        raise BadValue("type", "every item of a list is a word without commas and without spaces around it")
    return tuple(word for word in words if word is not None)


_READERS: Mapping[KnobType, Callable[[object], KnobValue]] = {
    KnobType.BOOL: _read_bool,
    KnobType.INT: _read_int,
    KnobType.FLOAT: _read_float,
    KnobType.ENUM: _text,
    KnobType.STR: _text,
    KnobType.BYTES: _quantity(parse_bytes),
    KnobType.DURATION: _quantity(parse_duration),
    KnobType.PATH: _text,
    KnobType.LIST: _read_list,
}


def _shown(raw: object) -> str:
    if isinstance(raw, bool):
        return str(raw).lower()
    if isinstance(raw, list | tuple | dict):
        return "a mapping" if isinstance(raw, dict) else "a list"
    return f"the text '{raw}'" if isinstance(raw, str) else f"'{_text(raw) or raw}'"


def read_value(raw: object, kind: KnobType) -> KnobValue:
    """Return the value of type `kind` that a spec's plain data stands for; None (unset) stays None.

    Bytes become ints of bytes, durations ints of nanoseconds, lists tuples of str. Raises `BadValue`.
    """
    if raw is None:
        return None
    value = _READERS[kind](raw)
    if value is None:
        raise BadValue("type", f"a knob of type {kind} takes {_KIND_WORDS[kind]}, not {_shown(raw)}")
    if type(value) is int and not -(2**63) <= value < 2**63:
        raise BadValue("type", f"{_shown(raw)} does not fit into 64 bits")
    return value


def show_value(value: KnobValue, kind: KnobType) -> str:
    """Write a value as a user would: `512MiB`, `250ms`, `true`, `a,b`; unset is `unset`."""
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if kind is KnobType.BYTES and isinstance(value, int):
        return show_bytes(value)
    if kind is KnobType.DURATION and isinstance(value, int):
        return show_duration(value)
    return str(value)


def _range_problem(value: int | float, limits: Range, show: Callable[[int | float], str]) -> str | None:
    problems = (
        (limits.minimum is not None and value < limits.minimum, "at least", limits.minimum),
        (limits.maximum is not None and value > limits.maximum, "at most", limits.maximum),
        (limits.above is not None and value <= limits.above, "above", limits.above),
        (limits.below is not None and value >= limits.below, "below", limits.below),
        (
            limits.multiple_of is not None and value % (limits.multiple_of or 1) != 0,
            "a multiple of",
            limits.multiple_of,
        ),
    )
    return next((f"must be {words} {show(bound)}" for bad, words, bound in problems if bad and bound is not None), None)


def check_value(value: KnobValue, kind: KnobType, limits: Range, choices: Sequence[str]) -> None:
    """Raise `BadValue` when `value`, of the right type already, lies outside the range or the choices."""
    if value is None:
        return
    if kind is KnobType.ENUM and value not in choices:
        raise BadValue("choices", f"'{value}' is not one of {', '.join(choices)}", did_you_mean(str(value), choices))
    if kind in NUMERIC and isinstance(value, int | float):
        problem = _range_problem(value, limits, lambda bound: show_value(bound, kind))
        if problem:
            raise BadValue("range", f"{problem}, not {show_value(value, kind)}")


def show_value_of(knob: Knob, value: KnobValue) -> str:
    """Write a value of `knob` as a user would: by its word, if one stands for it."""
    return knob.word_of(value) or show_value(value, knob.type)


def value_for(knob: Knob, raw: object) -> KnobValue:
    """Return what `knob` holds when a spec gives it `raw`. Raises `BadValue` when it cannot hold that."""
    words = dict(knob.words)
    if isinstance(raw, str) and raw in words:
        return words[raw]
    value = read_value(raw, knob.type)
    if knob.word_of(value) is not None:  # settled before
        return value
    check_value(value, knob.type, knob.range, knob.choices)
    return value
