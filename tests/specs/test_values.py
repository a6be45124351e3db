"""Values of knobs as specs write them: units, types, ranges."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_gen.load.scalars import resolve_plain
from strata_gen.model.knob import KnobType, KnobValue, Range
from strata_gen.model.units import parse_bytes, parse_duration, show_bytes, show_duration
from strata_gen.model.values import BadValue, check_value, read_value, show_value


@pytest.mark.parametrize(
    ("text", "value"),
    [("0", 0), ("4096", 4096), ("512MiB", 512 << 20), ("2GB", 2_000_000_000), ("1.5KiB", 1536), ("-1kB", -1000)],
)
def test_bytes(text: str, value: int) -> None:
    assert parse_bytes(text) == value


@pytest.mark.parametrize(
    ("text", "value"), [("0", 0), ("250ms", 250_000_000), ("2s", 2 * 10**9), ("1.5us", 1500), ("1min", 60 * 10**9)]
)
def test_durations(text: str, value: int) -> None:
    assert parse_duration(text) == value


@pytest.mark.parametrize("text", ["", "MiB", "5 MiB", "5mib", "0x10", "1e3", "0.3KiB", "5ms"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "250", "-3", "1.5", "5 ms", "5MS", "5B", "0.5ns"])
def test_a_duration_needs_its_unit(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_duration(text)


@given(st.integers(0, 2**63))
def test_quantities_print_and_read_back(value: int) -> None:
    assert parse_bytes(show_bytes(value)) == value
    assert parse_duration(show_duration(value)) == value


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [
        (KnobType.BOOL, "true", True),
        (KnobType.INT, "0x10", 16),
        (KnobType.FLOAT, "2", 2.0),
        (KnobType.STR, "8.10", "8.10"),
        (KnobType.STR, "no", "no"),
        (KnobType.ENUM, "0", "0"),
        (KnobType.BYTES, "4096", 4096),
        (KnobType.BYTES, "1GiB", 1 << 30),
        (KnobType.DURATION, "0", 0),
        (KnobType.PATH, "a/b", "a/b"),
        (KnobType.LIST, "a, b", ("a", "b")),
        (KnobType.INT, "null", None),
    ],
)
def test_a_plain_scalar_becomes_the_knobs_type(kind: KnobType, written: str, value: KnobValue) -> None:
    read = read_value(resolve_plain(written), kind)
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (KnobType.BOOL, "yes"),
        (KnobType.BOOL, 1),
        (KnobType.INT, True),
        (KnobType.INT, 1.0),
        (KnobType.INT, 2**63),
        (KnobType.FLOAT, float("nan")),
        (KnobType.FLOAT, False),
        (KnobType.STR, True),
        (KnobType.STR, ["a"]),
        (KnobType.BYTES, 1.5),
        (KnobType.BYTES, "8EiB"),
        (KnobType.DURATION, [1]),
        (KnobType.LIST, 3),
        (KnobType.LIST, ["a b ", ""]),
        (KnobType.LIST, {"a": 1}),
    ],
)
def test_a_value_of_another_type_is_refused(kind: KnobType, raw: object) -> None:
    with pytest.raises(BadValue) as refused:
        read_value(raw, kind)
    assert refused.value.kind == "type"


@pytest.mark.parametrize(
    ("limits", "good", "bad"),
    [
        (Range(minimum=1), 1, 0),
        (Range(maximum=8), 8, 9),
        (Range(above=0), 0.001, 0),
        (Range(below=1), 0.999, 1),
        (Range(multiple_of=4), 8, 6),
    ],
)
def test_bounds(limits: Range, good: float, bad: float) -> None:
    check_value(good, KnobType.FLOAT, limits, ())
    with pytest.raises(BadValue, match="must be"):
        check_value(bad, KnobType.FLOAT, limits, ())


def test_unset_fits_everything() -> None:
    check_value(None, KnobType.INT, Range(minimum=1), ())
    check_value(None, KnobType.ENUM, Range(), ("a",))


@pytest.mark.parametrize(
    ("value", "kind", "shown"),
    [
        (None, KnobType.INT, "unset"),
        (True, KnobType.BOOL, "true"),
        (1 << 30, KnobType.BYTES, "1GiB"),
        (50_000, KnobType.DURATION, "50us"),
        (("a", "b"), KnobType.LIST, "a,b"),
        (0.1, KnobType.FLOAT, "0.1"),
    ],
)
def test_values_are_shown_as_users_write_them(value: KnobValue, kind: KnobType, shown: str) -> None:
    assert show_value(value, kind) == shown
