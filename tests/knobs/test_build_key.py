"""Which knobs are part of a build: those that affect compile, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strata_gen.emitter import GeneratedFile
from strata_gen.errors import GeneratorError
from strata_gen.model.knob import Affects, Knob, KnobType
from strata_gen.model.specset import SpecSet
from strata_gen.model.values import show_value
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_gen.views import knobs as knob_views
from support.knob_plans import plan_for, render_knobs


def all_knobs() -> tuple[Knob, ...]:
    return load_specs([specs_root(), Path(__file__).parent / "specs"]).knobs


def another_value(knob: Knob) -> str:
    """A text for a value that is not the knob's default."""
    match knob.type:
        case KnobType.BOOL:
            return "false" if knob.default else "true"
        case KnobType.ENUM:
            return next(choice for choice in knob.choices if choice != knob.default)
        case KnobType.INT:
            step = knob.range.multiple_of or 1
            low = knob.range.minimum if knob.range.minimum is not None else 1
            return str(low if low != knob.default else low + step)
        case _:
            return show_value(knob.default, knob.type)


@pytest.mark.parametrize("knob", all_knobs(), ids=lambda knob: knob.name)
def test_a_knob_is_part_of_the_build_exactly_when_it_affects_compile(
    knob: Knob, knob_specs: SpecSet, knob_files: tuple[GeneratedFile, ...]
) -> None:
    plan = plan_for(knob_specs)
    assert (knob.name in plan.compile_values) is (knob.affects is Affects.COMPILE)
    if knob.affects is Affects.COMPILE:
        other = plan_for(knob_specs, {knob.name: another_value(knob)})
        assert other.compile_values != plan.compile_values
        assert render_knobs(other) != knob_files
    else:
        with pytest.raises(GeneratorError, match="is no build-time knob"):
            plan_for(knob_specs, {knob.name: another_value(knob)})


def test_variables_of_the_environment_change_no_emitted_file(
    knob_specs: SpecSet, knob_files: tuple[GeneratedFile, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    for knob in knob_specs.knobs:
        monkeypatch.setenv(knob.env, another_value(knob))
    assert render_knobs(plan_for(knob_specs)) == knob_files


def test_a_changed_default_changes_one_native_file(knob_specs: SpecSet, knob_files: tuple[GeneratedFile, ...]) -> None:
    """Only its definition in knobs.cpp: nothing that includes the header is compiled again."""
    knobs = tuple(replace(knob, default=64) if knob.name == "pool.claim_rows" else knob for knob in knob_specs.knobs)
    after = render_knobs(plan_for(replace(knob_specs, knobs=knobs)))
    changed = {file.path for file, other in zip(knob_files, after, strict=True) if file.text != other.text}
    assert changed == {"src/gen/knobs.cpp", "python/settings.py"}


def test_every_emitter_names_the_files_of_the_knobs(knob_specs: SpecSet) -> None:
    plan = plan_for(knob_specs)
    for emitter in knob_views.EMITTERS:
        assert set(emitter.sources(plan)) >= {knob.span.file for knob in knob_specs.knobs}
