"""Relations between knobs: what is done, what is said, and that the two agree."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from strata_runtime.errors import UserError
from strata_runtime.knobs import Resolution, Source, resolve
from strata_runtime.knobs.grammar import parse
from strata_runtime.knobs.info import KnobInfo


def with_environment(knobs: tuple[KnobInfo, ...], **texts: str) -> Resolution:
    return resolve(knobs, environ={f"STRATA_REL_{name.upper()}": text for name, text in texts.items()})


def test_requires(knobs: tuple[KnobInfo, ...]) -> None:
    assert with_environment(knobs, draft="4", drafter="ngram").values["rel.draft"] == 4
    assert with_environment(knobs, draft="0").values["rel.draft"] == 0
    with pytest.raises(UserError) as refused:
        with_environment(knobs, draft="4")
    assert str(refused.value) == (
        'rel.draft=4 (environment STRATA_REL_DRAFT) requires rel.drafter != "none": something has to draft '
        "(rel.drafter is none)"
    )


def test_conflicts(knobs: tuple[KnobInfo, ...]) -> None:
    assert with_environment(knobs, remote="1").values["rel.remote"] is True
    with pytest.raises(UserError) as refused:
        with_environment(knobs, drafter="mtp", remote="1")
    assert str(refused.value) == (
        "rel.drafter=mtp (environment STRATA_REL_DRAFTER) conflicts with rel.remote: drafts are not sent to remote "
        "stages (rel.remote is true)"
    )


def test_ignored_unless(knobs: tuple[KnobInfo, ...]) -> None:
    read = with_environment(knobs, below="0.3", defer="1")
    assert (read.values["rel.below"], read.lines) == (0.3, ())
    ignored = with_environment(knobs, below="0.3")
    assert (ignored.values["rel.below"], ignored.sources["rel.below"].source) == (0.1, Source.DEFAULT)
    assert ignored.lines == (
        'rel.below=0.3 (environment STRATA_REL_BELOW) is ignored: it is read only while rel.defer != "0"',
    )


def test_a_value_that_equals_the_default_is_ignored_aloud_too(knobs: tuple[KnobInfo, ...]) -> None:
    assert len(with_environment(knobs, below="0.1").lines) == 1


def test_off_with(knobs: tuple[KnobInfo, ...]) -> None:
    off = with_environment(knobs, below="0.3", defer="1", plan="1", slots="4")
    assert (off.values["rel.below"], off.sources["rel.below"].source) == (0.1, Source.DEFAULT)
    assert off.lines == (
        "rel.below=0.3 (environment STRATA_REL_BELOW) is turned off (0.1 holds): device plan: every row joins late",
    )
    on = with_environment(knobs, below="0.3", defer="1", plan="1", slots="3")
    assert (on.values["rel.below"], on.lines) == (0.3, ())


def test_an_ordering_with_an_unset_knob_is_false(knobs: tuple[KnobInfo, ...]) -> None:
    assert with_environment(knobs, below="0.3", defer="1", plan="1").values["rel.below"] == 0.3


def test_invalid_default(knobs: tuple[KnobInfo, ...]) -> None:
    for text, what in (("abc", "is not a decimal number"), ("0", "must be above 0"), ("-1", "must be above 0")):
        resolution = with_environment(knobs, below=text, defer="1")
        assert resolution.values["rel.below"] == 0.1
        line = f"rel.below: '{text}' {what} (environment STRATA_REL_BELOW); the default 0.1 holds"
        assert resolution.lines == (line,)


def test_implies(knobs: tuple[KnobInfo, ...]) -> None:
    fast = with_environment(knobs, fast="1")
    assert (fast.values["rel.plan"], str(fast.sources["rel.plan"])) == (True, "implied by rel.fast")
    assert fast.values["rel.timeout"] == 50_000
    assert with_environment(knobs, fast="1", plan="0").values["rel.plan"] is False


def test_implications_chain(knobs: tuple[KnobInfo, ...]) -> None:
    """rel.fast makes the timeout short, and a short timeout makes the queue deep."""
    resolution = with_environment(knobs, fast="1")
    assert (resolution.values["rel.depth"], str(resolution.sources["rel.depth"])) == (4, "implied by rel.eager")
    assert with_environment(knobs, fast="1", timeout="1s").values["rel.depth"] == 1
    assert with_environment(knobs, fast="1", remote="1").values["rel.depth"] == 1


def test_a_relation_sees_implied_values(knobs: tuple[KnobInfo, ...]) -> None:
    """The device plan turns the split off, whether a user set the plan or rel.fast implies it."""
    assert len(with_environment(knobs, fast="1", defer="1", slots="8", below="0.3").lines) == 1


# Two values for every knob of the relations, and what is expected of their combination by a model of its own.
VALUES = {
    "draft": ("0", "3"),
    "drafter": ("none", "mtp"),
    "remote": ("0", "1"),
    "defer": ("0", "check"),
    "below": ("0.1", "0.4"),
    "plan": ("0", "1"),
    "slots": ("1", "4"),
    "fast": ("0", "1"),
    "timeout": ("2s", "10us"),
    "eager": ("0", "1"),
    "depth": ("1", "6"),
}


@pytest.mark.parametrize("pair", list(combinations(VALUES, 2)), ids="-".join)
def test_pairs(knobs: tuple[KnobInfo, ...], pair: tuple[str, str]) -> None:
    """Every pair of values of every two knobs, alone and over a background in which each relation can strike."""
    backgrounds: tuple[dict[str, str], ...] = ({}, {"plan": "1", "slots": "8"}, {"defer": "1"})
    for background, texts in product(backgrounds, product(*(VALUES[name] for name in pair))):
        check({**background, **dict(zip(pair, texts, strict=True))}, knobs)


def check(texts: dict[str, str], knobs: tuple[KnobInfo, ...]) -> None:
    drafter, remote = texts.get("drafter", "none"), texts.get("remote") == "1"
    refused = (texts.get("draft", "0") != "0" and drafter == "none") or (drafter != "none" and remote)
    if refused:
        with pytest.raises(UserError):
            with_environment(knobs, **texts)
        return
    resolution = with_environment(knobs, **texts)
    fast = texts.get("fast") == "1"
    plan = texts["plan"] == "1" if "plan" in texts else fast
    timeout = texts.get("timeout", "50us" if fast and not remote else "2s")
    read = texts.get("defer", "0") != "0"
    off = plan and int(texts.get("slots", "1")) >= 4
    deep = timeout in ("50us", "10us") or texts.get("defer") in ("1", "check")
    expected = {
        "rel.plan": plan,
        "rel.timeout": {"2s": 2 * 10**9, "50us": 50_000, "10us": 10_000}[timeout],
        "rel.below": float(texts.get("below", "0.1")) if read and not off else 0.1,
        "rel.depth": int(texts["depth"]) if "depth" in texts else 4 if deep else 1,
        "rel.draft": int(texts.get("draft", "0")),
    }
    assert {name: resolution.values[name] for name in expected} == expected
    assert_said_is_done(resolution, knobs, {f"rel.{name}": text for name, text in texts.items()})


def assert_said_is_done(resolution: Resolution, knobs: tuple[KnobInfo, ...], texts: dict[str, str]) -> None:
    """A given value holds, or exactly one line names its knob."""
    for knob in (knob for knob in knobs if knob.name in texts):
        said = [line for line in resolution.lines if line.startswith(f"{knob.name}=")]
        given_holds = resolution.sources[knob.name].source is Source.ENVIRONMENT
        assert given_holds == (not said), said
        if given_holds:
            assert resolution.values[knob.name] == parse(knob, texts[knob.name])
