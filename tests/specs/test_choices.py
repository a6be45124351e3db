"""An enum may take choices from the weight formats: those that can be made, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.diagnostics import SpecErrors
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs

KNOB = """\
knobs:
  - name: engine.kept_as
    type: enum
    choices: [{first}]
    choices_from: formats
    default: {first}
    affects: launch
    output: approximates
    help: Format of something.
"""
MADE = (specs_root() / "formats" / "q8_0.yaml").read_text(encoding="utf-8")
ONLY_READ = "".join(line for line in MADE.splitlines(keepends=True) if not line.startswith("encode"))
Make = Callable[..., Path]


def test_formats_that_can_be_made_are_choices(spec_root: Make) -> None:
    also_made = (specs_root() / "formats" / "f16.yaml").read_bytes()
    files = {"knobs/a.yaml": KNOB.format(first="stored"), "formats/q8_0.yaml": MADE, "formats/f16.yaml": also_made}
    (knob,) = load_specs([spec_root(files)]).knobs
    assert knob.choices == ("stored", "f16", "q8_0")
    assert knob.default == "stored"


def test_a_format_that_is_only_read_is_no_choice(spec_root: Make) -> None:
    files = {"knobs/a.yaml": KNOB.format(first="stored"), "formats/q8_0.yaml": ONLY_READ}
    (knob,) = load_specs([spec_root(files)]).knobs
    assert knob.choices == ("stored",)


def test_a_choice_that_is_a_format_too_is_refused(spec_root: Make) -> None:
    files = {"knobs/a.yaml": KNOB.format(first="q8_0"), "formats/q8_0.yaml": MADE}
    with pytest.raises(SpecErrors) as refused:
        load_specs([spec_root(files)])
    (problem,) = refused.value.diagnostics
    assert problem.message == "knob 'engine.kept_as' has the choice 'q8_0' twice"
    assert problem.notes[0].message == "format 'q8_0' is declared here"


def test_experts_can_be_kept_in_every_format_of_the_project() -> None:
    specs = load_specs((specs_root(),))
    (knob,) = (knob for knob in specs.knobs if knob.name == "engine.expert_format")
    assert knob.choices == ("stored", *(spec.name for spec in specs.formats))
