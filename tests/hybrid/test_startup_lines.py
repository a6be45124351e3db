"""What a program says at its start about the knobs of the window: every row of their tables."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from strata_runtime.errors import UserError
from strata_runtime.knobs import resolve, startup_lines
from strata_runtime.knobs.resolve import Resolution
from strata_runtime.provider import Provider

pytestmark = pytest.mark.native


def settle(provider: Provider, environ: Mapping[str, str]) -> tuple[Resolution, list[str]]:
    resolution = resolve(provider.knobs, environ=environ)
    lines = startup_lines(resolution, version="1", target="cpu native", package="p")
    return resolution, [line.removeprefix("strata: ") for line in lines[1:]]


BELOW = "verify.defer_cpu_below"
SPLIT = "rows of routing weight below {w} join late; rows of routing weight >= {w} are waited for"
ALL = "every CPU row joins late"


@pytest.mark.parametrize("defer", ["1", "check"])
@pytest.mark.parametrize(
    ("text", "value", "lines"),
    [
        (None, 0.1, [f"{BELOW}: {SPLIT.format(w='0.1')} (the default)"]),
        ("", 0.1, [f"{BELOW}: {SPLIT.format(w='0.1')} (the default)"]),
        ("0.1", 0.1, [f"{BELOW}: {SPLIT.format(w='0.1')}"]),
        ("0.25", 0.25, [f"{BELOW}: {SPLIT.format(w='0.25')}"]),
        ("1", 1.0, [f"{BELOW}: {ALL}"]),
        ("1.0", 1.0, [f"{BELOW}: {ALL}"]),
        ("17", 17.0, [f"{BELOW}: {ALL}"]),
    ],
)
def test_the_split(provider: Provider, defer: str, text: str | None, value: float, lines: list[str]) -> None:
    environ = {"STRATA_VERIFY_DEFER_CPU": defer, **({} if text is None else {"STRATA_VERIFY_DEFER_CPU_BELOW": text})}
    resolution, said = settle(provider, environ)
    assert resolution.values[BELOW] == value
    assert said == lines


@pytest.mark.parametrize("text", ["abc", "0", "-1", "nan", "0.0"])
def test_a_split_that_is_no_number_above_0_is_said_and_the_default_holds(provider: Provider, text: str) -> None:
    environ = {"STRATA_VERIFY_DEFER_CPU": "1", "STRATA_VERIFY_DEFER_CPU_BELOW": text}
    resolution, said = settle(provider, environ)
    assert resolution.values[BELOW] == 0.1
    assert len(said) == 2
    assert said[0].startswith(BELOW)
    assert text in said[0]
    assert said[0].endswith("the default 0.1 holds")
    assert said[1] == f"{BELOW}: {SPLIT.format(w='0.1')} (the default)"


@pytest.mark.parametrize("defer", [None, "0"])
def test_a_split_without_deferral_is_ignored_with_one_line(provider: Provider, defer: str | None) -> None:
    environ = {"STRATA_VERIFY_DEFER_CPU_BELOW": "0.3", **({} if defer is None else {"STRATA_VERIFY_DEFER_CPU": defer})}
    _, said = settle(provider, environ)
    assert len(said) == 1
    assert said[0].startswith(f"{BELOW}=0.3 (environment STRATA_VERIFY_DEFER_CPU_BELOW) is ignored: it is read only")


@pytest.mark.parametrize("below", [None, "0.3"])
def test_the_device_plan_turns_the_split_off_with_one_line(provider: Provider, below: str | None) -> None:
    environ = {"STRATA_VERIFY_DEFER_CPU": "1", "STRATA_VERIFY_DEVICE_PLAN": "1"}
    if below is not None:
        environ["STRATA_VERIFY_DEFER_CPU_BELOW"] = below
    _, said = settle(provider, environ)
    assert said == [f"{BELOW}: no split with the device plan, so every CPU row joins late"]


@pytest.mark.parametrize("value", ["0", "1", "check"])
def test_deferral_has_three_values(provider: Provider, value: str) -> None:
    assert settle(provider, {"STRATA_VERIFY_DEFER_CPU": value})[0].values["verify.defer_cpu"] == value
    with pytest.raises(UserError, match=r"verify\.defer_cpu: .yes. is not one of 0, 1, check"):
        settle(provider, {"STRATA_VERIFY_DEFER_CPU": "yes"})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("0", "must be at least 1"),
        ("-3", "must be at least 1"),
        ("abc", "is not a whole number"),
        ("1.5", "is not a whole number"),
    ],
)
def test_a_cap_that_is_no_positive_integer_is_off_with_one_line(provider: Provider, text: str, problem: str) -> None:
    resolution, said = settle(provider, {"STRATA_VERIFY_ECAP": text})
    assert resolution.values["verify.ecap"] is None
    source = "(environment STRATA_VERIFY_ECAP)"
    assert said == [f"verify.ecap: '{text}' {problem} {source}; it is off, as when unset"]


@pytest.mark.parametrize("text", [None, "", "24"])
def test_a_cap_that_fits_or_none_says_nothing(provider: Provider, text: str | None) -> None:
    resolution, said = settle(provider, {} if text is None else {"STRATA_VERIFY_ECAP": text})
    assert resolution.values["verify.ecap"] == (int(text) if text else None)
    assert said == []


@pytest.mark.parametrize(("variable", "knob"), [("VERIFY_ECAP", "verify.ecap"), ("ROUTE_TAIL_SKIP", "route.tail_skip")])
def test_what_looks_at_whole_windows_says_that_the_text_depends_on_them(
    provider: Provider, variable: str, knob: str
) -> None:
    environ = {f"STRATA_{variable}": "6"}
    assert settle(provider, environ)[1] == []
    line = "the text depends on the windows: another drafter or width gives another one"
    assert settle(provider, environ | {"STRATA_WINDOW_DRAFT": "ngram"})[1] == [f"{knob}: {line}"]


def test_unset_says_nothing(provider: Provider) -> None:
    assert settle(provider, {})[1] == []


def test_variables_are_the_known_ones(provider: Provider) -> None:
    variables = {knob.env for knob in provider.knobs}
    assert variables >= {
        "STRATA_VERIFY_DEFER_CPU",
        "STRATA_VERIFY_DEFER_CPU_BELOW",
        "STRATA_VERIFY_ECAP",
        "STRATA_VERIFY_DEVICE_PLAN",
        "STRATA_VERIFY_ALL_RESIDENT",
        "STRATA_VERIFY_PROFILE",
        "STRATA_ROUTE_TAIL_SKIP",
        "STRATA_EXPERT_CACHE",
        "STRATA_LOGPOS",
    }
