"""The C++ parser accepts the same texts as Python's, gives the same values, and says the same of the rest."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_runtime.knobs.grammar import KnobError, parse, show
from strata_runtime.knobs.info import KnobInfo, Source
from strata_runtime.knobs.resolve import resolve
from support import knob_strategies
from support.knob_library import KnobLibrary, Refused

# Each example is given to every run-time knob: some thirty times as many comparisons.
MANY = settings(max_examples=700, deadline=None, suppress_health_check=list(HealthCheck))


def run_time(knobs: tuple[KnobInfo, ...]) -> tuple[KnobInfo, ...]:
    return tuple(knob for knob in knobs if not knob.is_built_in)


def in_python(knob: KnobInfo, text: str) -> str:
    """Canonical text, or the message."""
    try:
        value = parse(knob, text)
    except KnobError as problem:
        return f"refused: {problem}"
    return show(knob, knob.default if value is None else value)


def in_cpp(library: KnobLibrary, knob: KnobInfo, text: str) -> str:
    try:
        return library.parse_and_print(knob.name, text)
    except Refused as problem:
        return f"refused: {problem}"


def assert_alike(knobs: tuple[KnobInfo, ...], library: KnobLibrary, text: str) -> None:
    for knob in run_time(knobs):
        assert in_cpp(library, knob, text) == in_python(knob, text)


@MANY
@given(data=st.data())
def test_well_formed_texts(knobs: tuple[KnobInfo, ...], library: KnobLibrary, data: st.DataObject) -> None:
    text = data.draw(knob_strategies.texts(data.draw(st.sampled_from(run_time(knobs)))))
    assert_alike(knobs, library, text)


@MANY
@given(data=st.data())
def test_garbage(knobs: tuple[KnobInfo, ...], library: KnobLibrary, data: st.DataObject) -> None:
    text = data.draw(knob_strategies.garbage(data.draw(st.sampled_from(run_time(knobs)))))
    assert_alike(knobs, library, text)


@settings(max_examples=1000, deadline=None)
@given(number=st.floats(allow_nan=False, allow_infinity=False))
def test_every_float_is_printed_alike(knobs: tuple[KnobInfo, ...], library: KnobLibrary, number: float) -> None:
    knob = next(knob for knob in knobs if knob.name == "demo.real")
    assert in_cpp(library, knob, repr(number)) == in_python(knob, repr(number))


@pytest.mark.parametrize(
    "text",
    [
        "1e308", "1.8e308", "17" + "0" * 307, "18" + "0" * 307, "1e-323", "2e-324", "5e-324", "0e999999999999999999999",
        "0." + "0" * 400 + "1e401", "0." + "0" * 400 + "1", "1" + "0" * 400 + "e-400", "1e-99999999999999999999",
        "1e99999999999999999999", "0.1" + "0" * 2000, "9007199254740993", "123456789012345680000", "1e16", "1e15",
        "0.0001", "0.00001", "-0", "-0.0", "-1e-999", "-1e999",
    ],
)  # fmt: skip
def test_the_edges_of_floats(knobs: tuple[KnobInfo, ...], library: KnobLibrary, text: str) -> None:
    for knob in (knob for knob in run_time(knobs) if knob.type == "float"):
        assert in_cpp(library, knob, text) == in_python(knob, text)


@pytest.mark.parametrize("unit", ["", "B", "KiB", "TiB", "kB", "TB", "ns", "min", "h"])
@pytest.mark.parametrize(
    "number",
    ["0.1", "0.5", "0.000000000000000001", "0.0000000000000000001", "9223372036854775807", "9223372036854775808",
     "8388607.999999999999999999", "8388608", "0.0009765625", "0.50000000000000000000000", "1.", ".5", "00.5"],
)  # fmt: skip
def test_fractions_of_units(knobs: tuple[KnobInfo, ...], library: KnobLibrary, number: str, unit: str) -> None:
    for knob in (knob for knob in run_time(knobs) if knob.type in ("bytes", "duration")):
        assert in_cpp(library, knob, number + unit) == in_python(knob, number + unit)


def test_unset_empty_and_boundaries(knobs: tuple[KnobInfo, ...], library: KnobLibrary) -> None:
    for knob in run_time(knobs):
        texts = ["", " \t"]
        if knob.type in knob_strategies.NUMERIC:
            texts += [knob_strategies.number_text(knob, number) for number in knob_strategies.boundaries(knob)]
        for text in texts:
            assert in_cpp(library, knob, text) == in_python(knob, text)


def test_a_name_that_no_knob_has(library: KnobLibrary) -> None:
    with pytest.raises(Refused, match=r"there is no run-time knob 'demo\.nothing'"):
        library.parse_and_print("demo.nothing", "1")


def test_the_environment_gives_the_same_values_and_lines(
    knobs: tuple[KnobInfo, ...], library: KnobLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"STRATA_DEMO_COUNT": "12", "STRATA_DEMO_LENIENT": "99", "STRATA_DEMO_MODE": "  "}
    for name, text in environ.items():
        monkeypatch.setenv(name, text)
    resolution = resolve(knobs, environ=environ)
    assert resolution.sources["demo.count"].source is Source.ENVIRONMENT
    assert library.environment("demo.count") == ("12", resolution.lines)
    assert library.environment("demo.mode")[0] == "0"
    assert resolution.lines == (
        "demo.lenient: '99' must be at least 1 and at most 9 (environment STRATA_DEMO_LENIENT); the default 7 holds",
    )
    monkeypatch.setenv("STRATA_DEMO_STEP", "5")
    with pytest.raises(Refused, match=r"must be .* a multiple of 32 \(environment STRATA_DEMO_STEP\)"):
        library.environment("demo.count")
