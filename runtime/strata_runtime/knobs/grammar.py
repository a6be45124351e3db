"""The one grammar of knob values: text to value, and value to canonical text.

    bool      1 true on yes, 0 false off no, in any case
    int       [+-]digits, within 64 bits
    float     decimal or exponent notation, finite
    bytes     4096, 512MiB, 1.5GB: B kB MB GB TB (1000) KiB MiB GiB TiB (1024), a whole number of bytes
    duration  50us, 1.5s: ns us ms s min h, a whole number of nanoseconds; 0 needs no unit
    enum      one of the choices, exactly
    str path  any text
    list      comma-separated, no empty items

A number may have words that stand for values, in its range or not; its canonical text is the word then.

Blanks (space, tab, carriage return, line feed) around a text and around list items are dropped. A text of blanks alone
is "unset". `runtime/src/knob_text.cpp` is the same grammar for C++: the same texts, values and messages.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from strata_runtime.knobs.info import KnobInfo, KnobValue, Range

BLANKS = " \t\r\n"

BYTE_UNITS = {
    "B": 1,
    "kB": 10**3,
    "KiB": 2**10,
    "MB": 10**6,
    "MiB": 2**20,
    "GB": 10**9,
    "GiB": 2**30,
    "TB": 10**12,
    "TiB": 2**40,
}
DURATION_UNITS = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9}

_TRUE, _FALSE = ("1", "true", "on", "yes"), ("0", "false", "off", "no")
_INT = re.compile(r"([+-]?)0*([0-9]+)", re.ASCII)
_FLOAT = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_QUANTITY = re.compile(r"0*([0-9]+)(?:\.([0-9]+))?([A-Za-z]*)", re.ASCII)
_INT64_DIGITS = 19
_FRACTION_DIGITS = 18


class KnobError(ValueError):
    """A text that is no value of its knob. The message names the knob, the text and what is expected."""


def trimmed(text: str) -> str:
    """Drop the grammar's blanks, and nothing else, from both ends."""
    return text.strip(BLANKS)


def quoted(text: str) -> str:
    """Quote a text for a message, with control characters as `\\x1b`."""
    return "'" + "".join(f"\\x{ord(c):02x}" if c < " " or c == "\x7f" else c for c in text) + "'"


def parse(knob: KnobInfo, text: str) -> KnobValue:
    """Return the value that `text` stands for, None when it is blank.

    Raises `KnobError` when it is not of the knob's type, or is outside its range or choices.
    """
    word = trimmed(text)
    if not word:
        return None
    words = dict(knob.words)
    if word in words:
        return words[word]
    try:
        value = _PARSERS[knob.type](knob, word)
        if isinstance(value, int | float) and not isinstance(value, bool):
            _check_range(knob, value)
    except _Refused as why:
        also = f"; allowed too: {', '.join(words)}" if words else ""
        raise KnobError(f"{knob.name}: {quoted(word)} {why}{also}") from None
    return value


def show(knob: KnobInfo, value: KnobValue) -> str:
    """Return the canonical text of a value: `parse(knob, show(knob, value)) == value`. None is an empty text."""
    word = next((word for word, meant in knob.words if meant == value), None)
    return word or show_as(knob.type, value)


def show_as(type_: str, value: KnobValue) -> str:
    """Return the canonical text of a value of the knob type `type_`."""
    if value is None:
        return ""
    match value:
        case bool():
            return "true" if value else "false"
        case tuple():
            return ",".join(value)
        case int() if type_ in _UNITS:
            return _show_quantity(value, _UNITS[type_])
        case float() | int() if type_ == "float":
            return repr(float(value)).removesuffix(".0")
        case _:
            return str(value)


def range_text(type_: str, bounds: Range) -> str:
    """Say what a range asks for, e.g. `at least 0 and a multiple of 32`; empty when it asks for nothing."""
    parts = (
        ("at least", bounds.minimum),
        ("above", bounds.above),
        ("at most", bounds.maximum),
        ("below", bounds.below),
        ("a multiple of", bounds.multiple_of),
    )
    return " and ".join(f"{words} {show_as(type_, bound)}" for words, bound in parts if bound is not None)


class _Refused(Exception):
    """Why a text is refused: the message without the knob and the text."""


def _bool(_: KnobInfo, word: str) -> bool:
    folded = word.lower()
    if folded in _TRUE:
        return True
    if folded in _FALSE:
        return False
    raise _Refused("is neither true (1, on, yes) nor false (0, off, no)")


def _within_int64(digits: str, sign: str = "") -> int:
    # Python refuses to convert very long digit strings, so their length is looked at first.
    value = int(sign + digits) if len(digits) <= _INT64_DIGITS else 2**63
    if not -(2**63) <= value < 2**63:
        raise _Refused("does not fit in 64 bits")
    return value


def _int(_: KnobInfo, word: str) -> int:
    match = _INT.fullmatch(word)
    if match is None:
        raise _Refused("is not a whole number")
    return _within_int64(match[2], match[1])


def _float(_: KnobInfo, word: str) -> float:
    if _FLOAT.fullmatch(word) is None:
        raise _Refused("is not a decimal number")
    value = float(word)
    if not math.isfinite(value):
        raise _Refused("is too large for a float")
    return value + 0.0  # makes -0.0 plain zero


def _quantity(word: str, units: dict[str, int], what: str, example: str) -> int:
    match = _QUANTITY.fullmatch(word)
    unit = match[3] if match else ""
    bare = match is not None and not unit and (units is BYTE_UNITS or (match[1] == "0" and not match[2]))
    if match is None or not (bare or unit in units):
        raise _Refused(f"is not a {what} (a number and one of {' '.join(units)}, such as {example})")
    scale = 1 if bare else units[unit]
    fraction = (match[2] or "").rstrip("0")
    # The fraction is a whole number of base units exactly when what is left of its denominator divides it.
    denominator = 10 ** min(len(fraction), _FRACTION_DIGITS + 1)
    common = math.gcd(scale, denominator)
    if len(fraction) > _FRACTION_DIGITS or int(fraction or "0") % (denominator // common):
        raise _Refused(f"is not a whole number of {'bytes' if units is BYTE_UNITS else 'nanoseconds'}")
    value = _within_int64(match[1]) * scale + int(fraction or "0") // (denominator // common) * (scale // common)
    return _within_int64(str(value))


def _bytes(_: KnobInfo, word: str) -> int:
    return _quantity(word, BYTE_UNITS, "size", "512MiB")


def _duration(_: KnobInfo, word: str) -> int:
    return _quantity(word, DURATION_UNITS, "duration", "50us")


def _enum(knob: KnobInfo, word: str) -> str:
    if word not in knob.choices:
        raise _Refused(f"is not one of {', '.join(knob.choices)}")
    return word


def _text(_: KnobInfo, word: str) -> str:
    if "\0" in word:
        raise _Refused("holds a NUL character")
    return word


def _list(knob: KnobInfo, word: str) -> tuple[str, ...]:
    items = tuple(trimmed(item) for item in _text(knob, word).split(","))
    if not all(items):
        raise _Refused("has an empty item")
    return items


_PARSERS: dict[str, Callable[[KnobInfo, str], KnobValue]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "bytes": _bytes,
    "duration": _duration,
    "enum": _enum,
    "str": _text,
    "path": _text,
    "list": _list,
}
_UNITS = {"bytes": BYTE_UNITS, "duration": DURATION_UNITS}


def _check_range(knob: KnobInfo, value: int | float) -> None:
    bounds = knob.range
    outside = (
        (bounds.minimum is not None and value < bounds.minimum)
        or (bounds.maximum is not None and value > bounds.maximum)
        or (bounds.above is not None and value <= bounds.above)
        or (bounds.below is not None and value >= bounds.below)
        or (bounds.multiple_of is not None and value % bounds.multiple_of != 0)
    )
    if outside:
        raise _Refused(f"must be {range_text(knob.type, bounds)}")


def _show_quantity(value: int, units: dict[str, int]) -> str:
    if value == 0:
        return "0"
    unit, scale = max(((u, s) for u, s in units.items() if value % s == 0), key=lambda pair: pair[1])
    return f"{value // scale}{unit}"
