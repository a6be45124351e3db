"""Which source wins, and what is remembered of it."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from strata_gen.load.scalars import WrittenInt
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import KnobDefault
from strata_runtime.errors import UserError
from strata_runtime.knobs import Resolution, Source, resolve
from strata_runtime.knobs.info import KnobInfo
from support.knob_plans import import_settings, plan_for, render_knobs

# A value of rel.depth from each source, all different; implied is 4 by rel.eager's rule, once rel.defer is set.
SOURCES = {
    Source.IMPLIED: 4,
    Source.CONFIG: 5,
    Source.ENVIRONMENT: 6,
    Source.COMMAND_LINE: 7,
    Source.PYTHON: 8,
}


def resolved(knobs: tuple[KnobInfo, ...], folder: Path, sources: tuple[Source, ...]) -> Resolution:
    """Resolve with `rel.depth` given by exactly these sources."""
    config = folder / "strata.toml"
    config.write_text("[rel]\ndepth = 5\n" if Source.CONFIG in sources else "")
    environ = {"STRATA_REL_DEPTH": "6"} if Source.ENVIRONMENT in sources else {}
    if Source.IMPLIED in sources:
        environ["STRATA_REL_DEFER"] = "check"
    return resolve(
        knobs,
        environ=environ,
        command_line={"rel.depth": "7"} if Source.COMMAND_LINE in sources else {},
        config_file=config,
        python={"rel_depth": 8} if Source.PYTHON in sources else {},
    )


@pytest.mark.parametrize("pair", list(combinations(SOURCES, 2)), ids=lambda pair: f"{pair[0].name}-{pair[1].name}")
def test_the_stronger_of_two_sources_wins(
    knobs: tuple[KnobInfo, ...], tmp_path: Path, pair: tuple[Source, Source]
) -> None:
    resolution = resolved(knobs, tmp_path, pair)
    assert resolution.values["rel.depth"] == SOURCES[max(pair)]
    assert resolution.sources["rel.depth"].source is max(pair)


@pytest.mark.parametrize("source", SOURCES)
def test_every_source_wins_over_the_default(knobs: tuple[KnobInfo, ...], tmp_path: Path, source: Source) -> None:
    resolution = resolved(knobs, tmp_path, (source,))
    assert (resolution.values["rel.depth"], resolution.sources["rel.depth"].source) == (SOURCES[source], source)


def test_nothing_given_is_the_default(knobs: tuple[KnobInfo, ...], tmp_path: Path) -> None:
    resolution = resolve(knobs, environ={})
    assert resolution.values == {knob.name: knob.default for knob in knobs}
    assert list(resolution.differing()) == []
    assert resolution.lines == ()


@pytest.mark.parametrize("source", SOURCES)
def test_a_targets_own_default_is_stronger_than_the_knobs_and_weaker_than_all_else(
    knob_specs: SpecSet, tmp_path: Path, source: Source
) -> None:
    knobs = with_target_default(knob_specs, tmp_path, "rel.depth", 2)
    alone = resolve(knobs, environ={})
    assert (alone.values["rel.depth"], alone.sources["rel.depth"].source) == (2, Source.TARGET)
    assert [knob.name for knob in alone.differing()] == ["rel.depth"]
    assert resolved(knobs, tmp_path, (source,)).values["rel.depth"] == SOURCES[source]


def test_what_is_turned_off_takes_the_knobs_own_default_not_the_targets(knob_specs: SpecSet, tmp_path: Path) -> None:
    knobs = with_target_default(knob_specs, tmp_path, "rel.below", 2)
    environ = {"STRATA_REL_DEFER": "1", "STRATA_REL_PLAN": "1", "STRATA_REL_SLOTS": "4"}
    off = resolve(knobs, environ=environ)
    assert (off.values["rel.below"], off.sources["rel.below"].source) == (0.1, Source.DEFAULT)
    assert resolve(knobs, environ={"STRATA_REL_DEFER": "1"}).values["rel.below"] == 2


def with_target_default(specs: SpecSet, folder: Path, name: str, value: int) -> tuple[KnobInfo, ...]:
    """The knobs of a package whose target has a default of its own."""
    plan = plan_for(specs)
    own = KnobDefault(name, WrittenInt(value, str(value)), specs.knobs[0].span)
    files = render_knobs(replace(plan, target=replace(plan.target, knob_defaults=(own,))))
    return import_settings(files, folder).KNOBS


def test_blank_text_lets_a_weaker_source_through(knobs: tuple[KnobInfo, ...]) -> None:
    resolution = resolve(
        knobs, environ={"STRATA_REL_DEPTH": "6"}, command_line={"rel.depth": " "}, python={"rel_depth": None}
    )
    assert (resolution.values["rel.depth"], str(resolution.sources["rel.depth"])) == (6, "environment STRATA_REL_DEPTH")


def test_only_the_winning_text_has_to_parse(knobs: tuple[KnobInfo, ...]) -> None:
    resolution = resolve(knobs, environ={"STRATA_REL_DEPTH": "many"}, command_line={"rel.depth": "2"})
    assert resolution.values["rel.depth"] == 2


def test_every_problem_is_told_at_once(knobs: tuple[KnobInfo, ...]) -> None:
    with pytest.raises(UserError) as problems:
        resolve(knobs, environ={"STRATA_DEMO_COUNT": "x", "STRATA_DEMO_FLAG": "2"}, python={"rel_depth": 99})
    assert str(problems.value).splitlines() == [
        "demo.count: 'x' is not a whole number (environment STRATA_DEMO_COUNT)",
        "demo.flag: '2' is neither true (1, on, yes) nor false (0, off, no) (environment STRATA_DEMO_FLAG)",
        "rel.depth: '99' must be at least 1 and at most 8 (Python)",
    ]


@pytest.mark.parametrize(
    ("argument", "value", "expected"),
    [
        ("demo_flag", True, True),
        ("demo.count", 12, 12),
        ("demo_share", 0, 0.0),
        ("demo_reserve", 4096, 4096),
        ("demo_patience", 1500, 1500),
        ("demo_patience", "1.5s", 1_500_000_000),
        ("demo_folder", Path("/models/x"), "/models/x"),
        ("demo_words", ["a", "b"], ("a", "b")),
        ("demo_words", ("a",), ("a",)),
        ("demo_words", "a,b", ("a", "b")),
        ("demo_mode", "check", "check"),
    ],
)
def test_python_values(knobs: tuple[KnobInfo, ...], argument: str, value: object, expected: object) -> None:
    values = resolve(knobs, environ={}, python={argument: value}).values
    assert values[argument.replace("_", ".", 1)] == expected


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("demo_count", True),
        ("demo_count", 1.0),
        ("demo_count", [1]),
        ("demo_count", 2**63),
        pytest.param("demo_count", 10**6000, id="demo_count-huge"),
        pytest.param("demo_patience", 10**6000, id="demo_patience-huge"),
        ("demo_flag", 2),
        ("demo_mode", True),
        ("demo_words", ["a,b"]),
        ("demo_words", [" a"]),
        ("demo_words", [1]),
        ("demo_share", float("nan")),
        ("demo_share", object()),
        ("demo_reserve", -1),
        ("demo_patience", -1),
    ],
)
def test_python_values_of_the_wrong_kind(knobs: tuple[KnobInfo, ...], argument: str, value: object) -> None:
    with pytest.raises(UserError, match=argument.replace("_", r"\.", 1)):
        resolve(knobs, environ={}, python={argument: value})


def test_a_misspelt_keyword_names_the_nearest(knobs: tuple[KnobInfo, ...]) -> None:
    with pytest.raises(UserError, match="no setting 'pool_thread'; did you mean 'pool_threads'"):
        resolve(knobs, environ={}, python={"pool_thread": 4})


def test_a_compile_knob_keeps_what_was_built_and_says_how_to_rebuild(
    knob_specs: SpecSet, knobs: tuple[KnobInfo, ...], tmp_path: Path
) -> None:
    resolution = resolve(knobs, environ={"STRATA_DEMO_WIDTH": "2", "STRATA_DEMO_LAYOUT": "rows"})
    assert (resolution.values["demo.width"], resolution.sources["demo.width"].source) == (4, Source.BUILT)
    assert resolution.lines == (
        "demo.width=2 (environment STRATA_DEMO_WIDTH) has no effect: 4 is built in; "
        "rebuild with 'strata-gen build --set demo.width=2'",
    )
    files = render_knobs(plan_for(knob_specs, {"demo.width": "2"}))
    rebuilt = resolve(import_settings(files, tmp_path).KNOBS, environ={"STRATA_DEMO_WIDTH": "2"})
    assert (rebuilt.values["demo.width"], rebuilt.lines) == (2, ())
    assert [knob.name for knob in rebuilt.differing()] == ["demo.width"]
