"""Conditions as generated Python mean what the generator's own evaluator says they mean."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_gen.diagnostics import Span
from strata_gen.edge.expr import parse_expr
from strata_gen.model.evaluate import holds
from strata_gen.model.expr import And, Compare, Constant, Expr, In, Name, Not, Or
from strata_gen.views.expr_python import to_python
from strata_runtime.knobs.info import Condition, KnobInfo
from support import knob_strategies

MAYBE = frozenset({"k.maybe_int", "k.maybe_flag"})
INTS, FLAGS, WORDS = ("k.int", "k.maybe_int"), ("k.flag", "k.maybe_flag"), ("k.word",)

_ints = st.integers(-2, 2)
_words = st.sampled_from(["a", "b", 'quo"te'])
_values = st.fixed_dictionaries(
    {
        "k.int": _ints,
        "k.maybe_int": st.none() | _ints,
        "k.flag": st.booleans(),
        "k.maybe_flag": st.none() | st.booleans(),
        "k.word": _words,
    }
)


def _comparisons() -> st.SearchStrategy[Expr]:
    ordering, equality = st.sampled_from(["<", "<=", ">", ">="]), st.sampled_from(["==", "!="])
    number = st.sampled_from(INTS).map(Name) | _ints.map(Constant)
    switch, word = st.sampled_from(FLAGS).map(Name), st.sampled_from(WORDS).map(Name)
    return st.one_of(
        st.builds(Compare, ordering | equality, number, number),
        st.builds(
            Compare, equality, st.sampled_from(FLAGS).map(Name), st.sampled_from([True, False, None]).map(Constant)
        ),
        st.builds(Compare, equality, st.sampled_from(INTS).map(Name), st.just(Constant(None))),
        st.builds(Compare, equality, word, _words.map(Constant)),
        st.builds(
            In, st.sampled_from(WORDS).map(Name), st.lists(_words.map(Constant), min_size=1, max_size=3).map(tuple)
        ),
        switch,
    )


def _combined(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    return st.one_of(inner.map(Not), several.map(And), several.map(Or))


@settings(max_examples=400, deadline=None)
@given(expr=st.recursive(_comparisons(), _combined, max_leaves=8), values=_values)
def test_the_translation_means_the_same(expr: Expr, values: dict[str, Any]) -> None:
    condition = Condition(eval(f"lambda v: {to_python(expr, MAYBE)}"), (), "")
    assert bool(condition.holds(values)) is holds(expr, values)


@pytest.mark.parametrize(
    ("text", "python"),
    [
        ("a.b", "v['a.b']"),
        ("a.b == true", "v['a.b'] is True"),
        ("a.b != unset", "v['a.b'] is not None"),
        ('a.b in ["x", "y"]', "v['a.b'] in ('x', 'y',)"),
        ("a.b < 3 and not a.c", "(v['a.b'] < 3) and (not (v['a.c']))"),
        ("k.maybe_int >= 4KiB", "v['k.maybe_int'] is not None and v['k.maybe_int'] >= 4096"),
    ],
)
def test_what_is_written(text: str, python: str) -> None:
    assert to_python(parse_expr(text, lambda start, end: Span("x", 1, start + 1, end + 1)), MAYBE) == python


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_every_relation_of_every_knob_can_be_evaluated(knobs: tuple[KnobInfo, ...], data: st.DataObject) -> None:
    """Over any values that the knobs can have; unset where that is possible."""
    values = {
        knob.name: data.draw(knob_strategies.values(knob) | (st.none() if knob.default is None else st.nothing()))
        for knob in knobs
    }
    for knob in knobs:
        unless = (knob.ignored_unless,) if knob.ignored_unless else ()
        implied = tuple(implication.when for implication in knob.implies)
        for condition in (*knob.requires, *knob.conflicts, *knob.off_with, *knob.says, *unless, *implied):
            assert set(condition.reads) <= values.keys()
            condition.holds(values)
