"""Plain scalars follow the core schema of YAML 1.2, and numbers remember how they were written."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_gen.load.scalars import AmbiguousScalar, WrittenFloat, WrittenInt, resolve_plain


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("False", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("12", 12),
        ("-3", -3),
        ("+3", 3),
        ("0", 0),
        ("0x1F", 31),
        ("0o17", 15),
        ("8.10", 8.1),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1.", 1.0),
        (".inf", math.inf),
        ("-.INF", -math.inf),
    ],
)
def test_core_schema(text: str, value: object) -> None:
    assert resolve_plain(text) == value
    assert isinstance(resolve_plain(text), type(value))


@pytest.mark.parametrize(
    "text", ["no", "yes", "on", "off", "y", "12:30", "1_000", "0b11", "tRue", "nULL", ".iNF", "1e", "0x", "-", "1.2.3"]
)
def test_what_yaml_1_1_or_a_guess_would_change_stays_text(text: str) -> None:
    assert resolve_plain(text) == text


@pytest.mark.parametrize("text", ["010", "-007", "00", "0644", "9" * 101, "1" * 5000, "0x" + "f" * 101])
def test_numbers_that_read_two_ways_are_refused(text: str) -> None:
    with pytest.raises(AmbiguousScalar):
        resolve_plain(text)


@given(st.integers(-(10**90), 10**90))
def test_every_integer_reads_back(number: int) -> None:
    value = resolve_plain(str(number))
    assert isinstance(value, WrittenInt)
    assert value == number
    assert value.raw == str(number)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_reads_back(number: float) -> None:
    value = resolve_plain(repr(number))
    assert isinstance(value, WrittenFloat)
    assert value == number
    assert value.raw == repr(number)


@given(st.text(max_size=30))
def test_no_text_breaks_the_rules(text: str) -> None:
    try:
        value = resolve_plain(text)
    except AmbiguousScalar as problem:
        assert problem.best.raw == text
        return
    if isinstance(value, WrittenInt | WrittenFloat):
        assert value.raw == text
    elif isinstance(value, str):
        assert value == text
    else:
        assert text.lower() in ("true", "false", "null", "~", "")
