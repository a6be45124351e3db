"""Specs, settings module and C++ parser of the project's own knobs together with those made up for the tests."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest

from strata_gen.emitter import GeneratedFile
from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.knobs.info import KnobInfo
from support.knob_library import KnobLibrary, compile_knobs
from support.knob_plans import import_settings, plan_for, render_knobs

MADE_UP = Path(__file__).parent / "specs"


@pytest.fixture(scope="session")
def knob_specs() -> SpecSet:
    return load_specs([specs_root(), MADE_UP])


@pytest.fixture(scope="session")
def knob_files(knob_specs: SpecSet) -> tuple[GeneratedFile, ...]:
    return render_knobs(plan_for(knob_specs))


@pytest.fixture(scope="session")
def settings_module(knob_files: tuple[GeneratedFile, ...], tmp_path_factory: pytest.TempPathFactory) -> ModuleType:
    return import_settings(knob_files, tmp_path_factory.mktemp("settings"))


@pytest.fixture(scope="session")
def knobs(settings_module: ModuleType) -> tuple[KnobInfo, ...]:
    return settings_module.KNOBS


@pytest.fixture(scope="session")
def library(knob_files: tuple[GeneratedFile, ...], tmp_path_factory: pytest.TempPathFactory) -> KnobLibrary:
    return compile_knobs(knob_files, tmp_path_factory.mktemp("knobs"))
