"""Relations between build-time knobs: settled before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata_gen.diagnostics import Span
from strata_gen.edge.expr import parse_expr
from strata_gen.errors import GeneratorError
from strata_gen.model.evaluate import holds
from strata_gen.model.knob import KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.resolve import find_target, make_plan
from strata_gen.views.expr_python import to_python

_COMMON = 'affects: compile, output: identical, help: A knob., since: "0.1"'
TARGET = """
- name: sm_90
  wave_size: {value: 32, source: guide}
  dot: dp4a
  mapped_stores: system_fence
  compilers: [{family: nvcc, minimum: {value: "13.0", source: guide}}]
"""


def knob(name: str, kind: str, default: str, relations: str = "") -> str:
    return f"- {{name: {name}, type: {kind}, default: {default}, {_COMMON}{', ' if relations else ''}{relations}}}\n"


TILED = knob("a.tiled", "bool", "false")
WIDE = knob("a.wide", "bool", "false")

Values = Callable[..., Mapping[str, KnobValue]]


@pytest.fixture
def values(small_specs: Callable[..., SpecSet]) -> Values:
    def settle(knobs: str, target_knobs: str = "", **given: str) -> Mapping[str, KnobValue]:
        specs = small_specs(TARGET + target_knobs, knobs=knobs)
        names = {f"a.{name}": text for name, text in given.items()}
        return make_plan(specs, find_target(specs, "cuda", "sm_90"), names).compile_values

    return settle


def refused(values: Values, knobs: str, **given: str) -> GeneratorError:
    with pytest.raises(GeneratorError) as caught:
        values(knobs, **given)
    return caught.value


def test_a_requirement_that_does_not_hold_is_an_error(values: Values) -> None:
    knobs = TILED + knob("a.rows", "int", "1", "requires: [{when: a.tiled, note: rows come in tiles}]")
    assert values(knobs, rows="2", tiled="true")["a.rows"] == 2
    problem = refused(values, knobs, rows="2")
    assert (problem.what, problem.where) == ("'a.rows' requires a.tiled", "--set a.rows=2")
    assert problem.mend == "rows come in tiles"


def test_a_requirement_means_nothing_for_a_knob_at_its_default(values: Values) -> None:
    knobs = TILED + knob("a.rows", "int", "1", "requires: [{when: a.tiled, note: rows come in tiles}]")
    assert values(knobs, rows="1")["a.rows"] == 1


def test_a_conflict_is_an_error(values: Values) -> None:
    knobs = TILED + WIDE.replace("}", ", conflicts: [{when: a.tiled, note: one of them}]}")
    assert refused(values, knobs, wide="true", tiled="true").what == "'a.wide' conflicts with a.tiled"


def test_a_value_that_would_be_ignored_or_turned_off_is_an_error_when_it_was_asked_for(values: Values) -> None:
    ignored = TILED + knob("a.rows", "int", "1", "ignored_unless: a.tiled")
    assert refused(values, ignored, rows="2").what == ("'a.rows' would be ignored: it is read only while a.tiled")
    off = TILED + knob("a.rows", "int", "1", "off_with: [{when: a.tiled, note: tiles have rows}]")
    assert refused(values, off, rows="2", tiled="true").mend == "tiles have rows"


def test_a_targets_default_gives_way_where_a_relation_turns_it_off(values: Values) -> None:
    off = TILED + knob("a.rows", "int", "1", "off_with: [{when: a.tiled, note: tiles have rows}]")
    assert values(off, "  knobs: {a.rows: 4}\n")["a.rows"] == 4
    assert values(off, "  knobs: {a.rows: 4}\n", tiled="true")["a.rows"] == 1


def test_an_implied_value_is_stronger_than_the_targets_and_weaker_than_what_is_set(values: Values) -> None:
    implying = TILED.replace("}", ", implies: [{when: a.tiled, knob: a.rows, value: 8}]}")
    knobs = knob("a.rows", "int", "1") + implying
    prefers = "  knobs: {a.rows: 4}\n"
    assert values(knobs, prefers)["a.rows"] == 4
    assert values(knobs, prefers, tiled="true")["a.rows"] == 8
    assert values(knobs, prefers, tiled="true", rows="2")["a.rows"] == 2


def test_a_target_whose_own_default_breaks_a_relation_is_named(values: Values) -> None:
    knobs = TILED + knob("a.rows", "int", "1", "requires: [{when: a.tiled, note: rows come in tiles}]")
    with pytest.raises(GeneratorError) as caught:
        values(knobs, "  knobs: {a.rows: 4}\n")
    assert caught.value.where == "a.rows=4, by the target"


CONDITIONS = [
    *("a.flag", "not a.flag", "a.flag == true", "a.flag != false", "a.count < 3", "a.count >= 2", "2 == a.count"),
    *("a.count == unset", "a.count != unset", "a.count != 1", 'a.word == "x"', 'a.word in ["x", "y"]'),
    *("a.count in [1, 2]", "a.flag and a.count > 1", 'a.flag or not (a.word == "y")'),
]


@pytest.mark.parametrize("condition", CONDITIONS)
@given(
    flag=st.booleans(),
    count=st.none() | st.integers(0, 4),
    word=st.sampled_from(["x", "y", "z"]),
)
def test_a_condition_means_the_same_to_the_generator_as_in_generated_code(
    condition: str, flag: bool, count: int | None, word: str
) -> None:
    v: dict[str, Any] = {"a.flag": flag, "a.count": count, "a.word": word}
    expr = parse_expr(condition, lambda start, end: Span("a.yaml", 1, start + 1, end + 1))
    # The text comes from the generator; the runtime evaluates it as part of a generated module.
    assert holds(expr, v) is bool(eval(to_python(expr, may_be_unset={"a.count"}), {"v": v}))
