"""Relations that are right are accepted, and reach the model as syntax trees with settled values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.model.cycles import find_cycles
from strata_gen.model.expr import Compare, Constant, Name, Not, Or
from strata_gen.specs import load_specs

KNOBS = """\
knobs:
  - {name: a.flag, type: bool, default: false, affects: runtime, output: identical, help: A flag.}
  - {name: a.count, type: int, default: 1, affects: runtime, output: identical, help: A count.}
  - {name: a.share, type: float, default: 0.5, affects: runtime, output: identical, help: A share.}
  - {name: a.mode, type: enum, choices: [slow, fast], default: slow, affects: runtime, output: identical, help: A mode.}
  - {name: a.text, type: str, affects: runtime, output: identical, help: A text.}
  - {name: a.size, type: bytes, default: 1MiB, affects: runtime, output: identical, help: A size.}
  - {name: a.wait, type: duration, default: 5ms, affects: runtime, output: identical, help: A time.}
  - {name: a.names, type: list, default: [x, y], affects: runtime, output: identical, help: Names.}
  - {name: a.file, type: path, affects: runtime, output: identical, help: A file.}
  - name: b.it
    type: int
    default: 0
    affects: runtime
    output: identical
    help: The knob with relations.
"""
Make = Callable[..., Path]


def test_a_word_for_a_number_stands_for_it(spec_root: Make) -> None:
    count = "- {name: a.slots, type: int, words: {auto: -1}, default: auto, range: {min: 0}"
    knobs = KNOBS.replace("- name: b.it", count + ", affects: runtime, output: identical, help: A.}\n  - name: b.it")
    root = spec_root({"knobs/a.yaml": knobs + "    ignored_unless: 'a.flag or not a.slots == \"auto\"'\n"})
    slots, knob = (knob for knob in load_specs([root]).knobs if knob.name in ("a.slots", "b.it"))
    assert slots.default == -1
    assert knob.ignored_unless is not None
    assert knob.ignored_unless.text == 'a.flag or not a.slots == "auto"'
    equal = Compare("==", Name("a.slots"), Constant(-1))
    assert knob.ignored_unless.condition == Or((Name("a.flag"), Not(equal)))


@pytest.mark.parametrize(
    "condition",
    [
        "a.flag",
        "not a.flag and a.flag == false",
        "a.count > 3 or 3 < a.count",
        "a.count < a.share",
        "a.share >= 1",
        'a.mode == "fast"',
        'a.mode in ["fast", "slow"]',
        'a.mode == a.text and a.text != ""',
        "a.text == unset",
        "a.size > 512MiB and a.size != 4096",
        "a.wait <= 1.5s",
        "a.names != unset",
        'a.file == "x" or a.file == a.text',
        "a.count not in [1, 2]",
    ],
)
def test_a_condition_that_type_checks(spec_root: Make, condition: str) -> None:
    root = spec_root({"knobs/a.yaml": KNOBS + f"    ignored_unless: '{condition}'\n"})
    knob = next(knob for knob in load_specs([root]).knobs if knob.name == "b.it")
    assert knob.ignored_unless is not None
    assert knob.ignored_unless.text == condition


def test_every_kind_of_relation_reaches_the_model(spec_root: Make) -> None:
    relations = """\
    requires: [{when: a.count > 0, note: count}]
    conflicts: [{when: a.flag, note: flag}]
    off_with: [{when: 'a.mode == "fast"', note: fast}]
"""
    root = spec_root({"knobs/a.yaml": KNOBS + relations})
    knob = next(knob for knob in load_specs([root]).knobs if knob.name == "b.it")
    assert [relation.note for relation in (*knob.requires, *knob.conflicts, *knob.off_with)] == [
        "count",
        "flag",
        "fast",
    ]
    assert knob.requires[0].condition == Compare(">", Name("a.count"), Constant(0))


@pytest.mark.parametrize(
    ("knob", "written", "value"),
    [
        ("a.size", "2MiB", 2 << 20),
        ("a.wait", "1s", 10**9),
        ("a.names", "[p, q]", ("p", "q")),
        ("a.text", "8.10", "8.10"),
    ],
)
def test_an_implied_value_has_the_type_of_the_knob_that_it_is_for(
    spec_root: Make, knob: str, written: str, value: object
) -> None:
    root = spec_root({"knobs/a.yaml": KNOBS + f"    implies: [{{when: b.it > 0, knob: {knob}, value: {written}}}]\n"})
    (implication,) = next(knob for knob in load_specs([root]).knobs if knob.name == "b.it").implies
    assert implication.value == value
    assert type(implication.value) is type(value)


def test_conflicts_may_be_mutual(spec_root: Make) -> None:
    text = KNOBS.replace("help: A flag.", "help: A flag., conflicts: [{when: b.it > 0, note: it}]")
    root = spec_root({"knobs/a.yaml": text + "    conflicts: [{when: a.flag, note: flag}]\n"})
    assert len(load_specs([root]).knobs) == 10


@pytest.mark.parametrize(
    ("graph", "cycles"),
    [
        ({}, ()),
        ({"a": ["b"], "b": ["c"], "c": []}, ()),
        ({"a": ["a"]}, (("a",),)),
        ({"b": ["a"], "a": ["b"]}, (("a", "b"),)),
        ({"a": ["b"], "b": ["c"], "c": ["b"]}, (("b", "c"),)),
        ({"a": ["b", "c"], "b": ["a"], "c": ["d"], "d": ["c"]}, (("a", "b"), ("c", "d"))),
        ({"a": ["nowhere"]}, ()),
    ],
)
def test_cycles_are_found_once_each(graph: dict[str, list[str]], cycles: tuple[tuple[str, ...], ...]) -> None:
    assert find_cycles(graph) == cycles
