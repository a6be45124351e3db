"""The grammar of knob values: what is accepted, what it means, and what is said of the rest."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_gen.model import units
from strata_runtime.knobs import grammar
from strata_runtime.knobs.grammar import KnobError, parse, show
from strata_runtime.knobs.info import KnobInfo
from support import knob_strategies


def by_name(knobs: tuple[KnobInfo, ...], name: str) -> KnobInfo:
    return next(knob for knob in knobs if knob.name == name)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("demo.flag", "1", True),
        ("demo.flag", "TRUE", True),
        ("demo.flag", "On", True),
        ("demo.flag", "yes", True),
        ("demo.flag", "0", False),
        ("demo.flag", "False", False),
        ("demo.flag", "oFF", False),
        ("demo.flag", "no", False),
        ("demo.count", "+7", 7),
        ("demo.count", "-0", 0),
        ("demo.count", "007", 7),
        ("demo.count", "9223372036854775807", 2**63 - 1),
        ("demo.count", "-9223372036854775808", -(2**63)),
        ("demo.real", "1", 1.0),
        ("demo.real", ".5", 0.5),
        ("demo.real", "5.", 5.0),
        ("demo.real", "1e-3", 0.001),
        ("demo.real", "-2.5E+2", -250.0),
        ("demo.real", "1e-999", 0.0),
        ("demo.reserve", "4096", 4096),
        ("demo.reserve", "0", 0),
        ("demo.reserve", "512MiB", 512 * 2**20),
        ("demo.reserve", "2GB", 2 * 10**9),
        ("demo.reserve", "1kB", 1000),
        ("demo.reserve", "1KiB", 1024),
        ("demo.reserve", "1.5GiB", 3 * 2**29),
        ("demo.patience", "250ms", 250 * 10**6),
        ("demo.patience", "2s", 2 * 10**9),
        ("demo.patience", "50us", 50_000),
        ("demo.patience", "100ns", 100),
        ("demo.patience", "1.5s", 1_500_000_000),
        ("demo.patience", "3min", 180 * 10**9),
        ("demo.patience", "0", 0),
        ("demo.slots", "7", 7),
        ("demo.slots", " auto ", -1),
        ("demo.slots", "all", -2),
        ("demo.part", "auto", -1.0),
        ("demo.part", "whole", 1.0),
        ("demo.mode", "check", "check"),
        ("demo.title", "  two words\t", "two words"),
        ("demo.folder", "~/x", "~/x"),
        ("demo.words", "a, b ,c", ("a", "b", "c")),
    ],
)
def test_a_text_means_its_value(knobs: tuple[KnobInfo, ...], name: str, text: str, value: object) -> None:
    assert parse(by_name(knobs, name), text) == value


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("demo.flag", "2", "demo.flag: '2' is neither true (1, on, yes) nor false (0, off, no)"),
        ("demo.count", "3.0", "demo.count: '3.0' is not a whole number"),
        ("demo.count", "0x10", "demo.count: '0x10' is not a whole number"),
        ("demo.count", "1_000", "demo.count: '1_000' is not a whole number"),
        ("demo.count", "٣", "demo.count: '٣' is not a whole number"),
        ("demo.count", "9223372036854775808", "demo.count: '9223372036854775808' does not fit in 64 bits"),
        ("demo.real", "nan", "demo.real: 'nan' is not a decimal number"),
        ("demo.real", "inf", "demo.real: 'inf' is not a decimal number"),
        ("demo.real", "0x1p3", "demo.real: '0x1p3' is not a decimal number"),
        ("demo.real", "1,5", "demo.real: '1,5' is not a decimal number"),
        ("demo.real", "1e999", "demo.real: '1e999' is too large for a float"),
        ("demo.weight", "0", "demo.weight: '0' must be above 0"),
        ("demo.share", "1.5", "demo.share: '1.5' must be at least 0 and at most 1"),
        ("demo.step", "33", "demo.step: '33' must be at least -64 and at most 64 and a multiple of 32"),
        ("demo.between", "10", "demo.between: '10' must be above 0 and below 10"),
        (
            "demo.memory",
            "4097",
            "demo.memory: '4097' must be at least 4KiB and at most 1TiB and a multiple of 4KiB",
        ),
        ("demo.wait", "0", "demo.wait: '0' must be above 0 and at most 1h"),
        ("demo.reserve", "0.5", "demo.reserve: '0.5' is not a whole number of bytes"),
        (
            "demo.reserve",
            "9EB",
            "demo.reserve: '9EB' is not a size (a number and one of B kB KiB MB MiB GB GiB TB TiB, such as 512MiB)",
        ),
        ("demo.reserve", "9999999TiB", "demo.reserve: '9999999TiB' does not fit in 64 bits"),
        (
            "demo.patience",
            "50",
            "demo.patience: '50' is not a duration (a number and one of ns us ms s min h, such as 50us)",
        ),
        # 2^20 / 5 bytes: the fraction's digits alone are a multiple of what its denominator leaves at 10^-19.
        (
            "demo.reserve",
            "0.00000019073486328125TiB",
            "demo.reserve: '0.00000019073486328125TiB' is not a whole number of bytes",
        ),
        ("demo.patience", "0.5ns", "demo.patience: '0.5ns' is not a whole number of nanoseconds"),
        ("demo.slots", "Auto", "demo.slots: 'Auto' is not a whole number; allowed too: auto, all"),
        ("demo.slots", "-1", "demo.slots: '-1' must be at least 0 and at most 99; allowed too: auto, all"),
        ("demo.part", "-1", "demo.part: '-1' must be at least 0 and at most 1; allowed too: auto, whole"),
        ("demo.mode", "Check", "demo.mode: 'Check' is not one of 0, 1, check"),
        ("demo.title", "a\0b", "demo.title: 'a\\x00b' holds a NUL character"),
        ("demo.words", "a,,b", "demo.words: 'a,,b' has an empty item"),
        ("demo.count", "\x1b[31m", "demo.count: '\\x1b[31m' is not a whole number"),
    ],
)
def test_a_refused_text_is_named_with_what_is_expected(
    knobs: tuple[KnobInfo, ...], name: str, text: str, message: str
) -> None:
    with pytest.raises(KnobError) as refused:
        parse(by_name(knobs, name), text)
    assert str(refused.value) == message


@pytest.mark.parametrize("text", ["", " ", "\t\r\n "])
def test_blank_text_is_unset_for_every_knob(knobs: tuple[KnobInfo, ...], text: str) -> None:
    assert {parse(knob, text) for knob in knobs} == {None}


def test_a_value_with_a_word_is_shown_by_it(knobs: tuple[KnobInfo, ...]) -> None:
    assert [show(by_name(knobs, "demo.slots"), value) for value in (-1, -2, 0, 99)] == ["auto", "all", "0", "99"]
    assert [show(by_name(knobs, "demo.part"), value) for value in (1.0, 0.5)] == ["whole", "0.5"]


def test_a_no_break_space_is_no_blank(knobs: tuple[KnobInfo, ...]) -> None:
    with pytest.raises(KnobError):
        parse(by_name(knobs, "demo.count"), "\u00a07")


@settings(max_examples=400, deadline=None)
@given(data=st.data())
def test_parsing_what_is_printed_gives_the_value_again(knobs: tuple[KnobInfo, ...], data: st.DataObject) -> None:
    knob = data.draw(st.sampled_from(knobs))
    value = data.draw(knob_strategies.values(knob))
    again = parse(knob, show(knob, value))
    assert (again, type(again)) == (value, type(value))


def test_every_default_is_printed_and_parsed(knobs: tuple[KnobInfo, ...]) -> None:
    for knob in knobs:
        assert parse(knob, show(knob, knob.default)) == knob.default


def test_boundaries_are_inside_or_outside_as_exact_arithmetic_says(knobs: tuple[KnobInfo, ...]) -> None:
    seen = 0
    for knob in (knob for knob in knobs if knob.type in knob_strategies.NUMERIC):
        for number in knob_strategies.boundaries(knob):
            seen += 1
            text = knob_strategies.number_text(knob, number)
            if knob_strategies.fits(knob, number):
                assert parse(knob, text) == number, knob.name
            else:
                with pytest.raises(KnobError):
                    parse(knob, text)
    assert seen > 100


def test_units_are_those_of_the_spec_language() -> None:
    assert units.BYTE_UNITS == grammar.BYTE_UNITS
    assert units.DURATION_UNITS == grammar.DURATION_UNITS
