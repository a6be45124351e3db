"""Hypothesis strategies for the values and texts of a knob, made from its `KnobInfo` alone."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

from hypothesis import strategies as st

from strata_runtime.knobs.grammar import BYTE_UNITS, DURATION_UNITS
from strata_runtime.knobs.info import KnobInfo, KnobValue

INT64 = (-(2**63), 2**63 - 1)
NUMERIC = ("int", "float", "bytes", "duration")
_UNITS = {"bytes": BYTE_UNITS, "duration": DURATION_UNITS}
_BLANKS = st.text(" \t\r\n", max_size=2)
_TEXTS = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), min_size=1, max_size=12)


def fits(knob: KnobInfo, value: int | float) -> bool:
    """Whether a number is inside the knob's range: an oracle of its own, in exact arithmetic."""
    exact, bounds = Fraction(value), knob.range
    return (
        (bounds.minimum is None or exact >= Fraction(bounds.minimum))
        and (bounds.maximum is None or exact <= Fraction(bounds.maximum))
        and (bounds.above is None or exact > Fraction(bounds.above))
        and (bounds.below is None or exact < Fraction(bounds.below))
        and (bounds.multiple_of is None or (exact / bounds.multiple_of).denominator == 1)
        and (knob.type == "float" or INT64[0] <= value <= INT64[1])
        and (knob.type not in _UNITS or value >= 0)
    )


def values(knob: KnobInfo) -> st.SearchStrategy[KnobValue]:
    """Values that the knob can hold; never None."""
    named = [value for _, value in knob.words]
    return st.one_of(st.sampled_from(named), _values(knob)) if named else _values(knob)


def _values(knob: KnobInfo) -> st.SearchStrategy[KnobValue]:
    match knob.type:
        case "bool":
            return st.booleans()
        case "int" | "bytes" | "duration":
            return _whole_numbers(knob)
        case "float":
            return _floats(knob)
        case "enum":
            return st.sampled_from(knob.choices)
        case "list":
            return st.lists(_words().filter(lambda word: "," not in word), min_size=1, max_size=4).map(tuple)
        case _:
            return _words()


def _words() -> st.SearchStrategy[str]:
    return _TEXTS.map(lambda text: text.strip(" \t\r\n")).filter(bool)


def _whole_numbers(knob: KnobInfo) -> st.SearchStrategy[KnobValue]:
    bounds, step = knob.range, knob.range.multiple_of or 1
    lows = (INT64[0], 0 if knob.type in _UNITS else None, bounds.minimum, bounds.above and bounds.above + 1)
    highs = (INT64[1], bounds.maximum, bounds.below and bounds.below - 1)
    low = math.ceil(Fraction(max(low for low in lows if low is not None), step))
    high = math.floor(Fraction(min(high for high in highs if high is not None), step))
    return st.integers(low, high).map(lambda n: n * step).filter(lambda n: fits(knob, n))


def _floats(knob: KnobInfo) -> st.SearchStrategy[KnobValue]:
    bounds = knob.range
    low = bounds.minimum if bounds.minimum is not None else bounds.above
    high = bounds.maximum if bounds.maximum is not None else bounds.below
    floats = st.floats(low, high, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0)
    return floats.filter(lambda x: fits(knob, x))


def boundaries(knob: KnobInfo) -> Iterator[int | float]:
    """Each bound of a number, and its neighbours on both sides."""
    bounds = knob.range
    edges = [bound for bound in (bounds.minimum, bounds.maximum, bounds.above, bounds.below) if bound is not None]
    if knob.type != "float":
        edges += [0, *INT64] if knob.type == "int" else [0, INT64[1]]
    for edge in edges:
        if knob.type == "float":
            yield from (math.nextafter(edge, -math.inf), float(edge), math.nextafter(edge, math.inf))
        else:
            step = bounds.multiple_of or 1
            yield from (edge - step, edge - 1, edge, edge + 1, edge + step)


def number_text(knob: KnobInfo, value: int | float) -> str:
    """A text for any number, inside the range or not."""
    base = {"bytes": "B", "duration": "ns"}.get(knob.type, "")
    return f"{value!r}{base}"


def texts(knob: KnobInfo) -> st.SearchStrategy[str]:
    """Texts of the knob's grammar in all their spellings, surrounding blanks included; ranges are not looked at."""
    words = [word for word, _ in knob.words]
    spelt = st.one_of(st.sampled_from(words), _spellings(knob)) if words else _spellings(knob)
    return st.tuples(_BLANKS, spelt, _BLANKS).map("".join)


def _spellings(knob: KnobInfo) -> st.SearchStrategy[str]:
    digits = st.text("0123456789", min_size=1, max_size=22)
    sign = st.sampled_from(["", "+", "-"])
    point = st.one_of(st.just(""), digits.map(lambda d: f".{d}"))
    match knob.type:
        case "bool":
            words = st.sampled_from(["1", "true", "on", "yes", "0", "false", "off", "no"])
            return st.builds(lambda word, upper: "".join(c.upper() if upper else c for c in word), words, st.booleans())
        case "int":
            return st.one_of(st.tuples(sign, digits).map("".join), st.integers(*INT64).map(str))
        case "float":
            exponent = st.one_of(st.just(""), st.tuples(st.sampled_from(["e", "E"]), sign, digits).map("".join))
            small = st.integers(-400, 400).map(lambda n: f"e{n}")
            mantissa = st.one_of(
                st.tuples(digits, st.one_of(point, st.just("."))).map("".join), digits.map(".".__add__)
            )
            return st.tuples(sign, mantissa, st.one_of(exponent, small)).map("".join)
        case "bytes" | "duration":
            units = st.sampled_from(["", *_UNITS[knob.type]])
            return st.tuples(digits, point, units).map("".join)
        case "list":
            return st.lists(st.tuples(_BLANKS, _TEXTS, _BLANKS).map("".join), min_size=1, max_size=4).map(",".join)
        case "enum":
            return st.sampled_from(knob.choices)
        case _:
            return _TEXTS


def garbage(knob: KnobInfo) -> st.SearchStrategy[str]:
    """Anything: arbitrary text, texts from the alphabet of numbers and units, and valid texts with one change."""
    near = st.text("0123456789+-.eE_xnaifKMGTBkushm ,\t\0", max_size=12)
    changed = st.builds(
        lambda text, at, new: text[: at % (len(text) + 1)] + new + text[at % (len(text) + 1) + 1 :],
        texts(knob),
        st.integers(0, 30),
        st.text(st.characters(blacklist_categories=["Cs"]), max_size=2),
    )
    return st.one_of(st.text(st.characters(blacklist_categories=["Cs"]), max_size=12), near, changed)
