"""Settings as values: the generated classes, scopes, and what importing them costs."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from types import ModuleType

import pytest

from strata_gen.emitter import GeneratedFile
from strata_runtime.errors import UserError
from strata_runtime.knobs import KnobInfo, Source, resolve, scope


def test_every_knob_is_a_field_of_its_section(settings_module: ModuleType, knobs: tuple[KnobInfo, ...]) -> None:
    values = {knob.name: object() for knob in knobs}
    settings = settings_module.Settings.from_values(values)
    for knob in knobs:
        assert getattr(getattr(settings, knob.section), knob.attribute) is values[knob.name]
    assert sum(len(fields(getattr(settings, section.name))) for section in fields(settings)) == len(knobs)


def test_settings_cannot_be_changed(settings_module: ModuleType, knobs: tuple[KnobInfo, ...]) -> None:
    settings = settings_module.Settings.from_values(resolve(knobs, environ={}).values)
    with pytest.raises(FrozenInstanceError):
        settings.pool.threads = 4
    with pytest.raises(FrozenInstanceError):
        settings.pool = None


def test_names_are_derived(knobs: tuple[KnobInfo, ...]) -> None:
    for knob in knobs:
        section, attribute = knob.name.split(".")
        derived = f"STRATA_{section}_{attribute}".upper()
        assert knob.env == {"eval.logpos": "STRATA_LOGPOS"}.get(knob.name, derived)
        assert knob.flag == f"--{section}-{attribute}".replace("_", "-")
        assert knob.field == f"{section}_{attribute}"


def test_a_scope_overrides_everything_and_changes_nothing(
    settings_module: ModuleType, knobs: tuple[KnobInfo, ...]
) -> None:
    resolution = resolve(knobs, environ={"STRATA_POOL_THREADS": "2"}, python={"demo_count": 5})
    before = dict(resolution.values)
    with scope(resolution, settings_module.Settings, pool_threads=4, demo_patience="2ms") as settings:
        assert (settings.pool.threads, settings.demo.count, settings.demo.patience) == (4, 5, 2_000_000)
    assert resolution.values == before
    assert resolution.sources["pool.threads"].source is Source.ENVIRONMENT


def test_a_scope_looks_at_relations_again(settings_module: ModuleType, knobs: tuple[KnobInfo, ...]) -> None:
    resolution = resolve(knobs, environ={})
    with scope(resolution, settings_module.Settings, rel_fast=True) as settings:
        assert settings.rel.plan is True
    with pytest.raises(UserError, match="requires"), scope(resolution, settings_module.Settings, rel_draft=2):
        pass


@pytest.mark.parametrize("override", [{"rel_below": 0.5}, {"demo_width": 2}, {"demo_lenient": 99}, {"nothing": 1}])
def test_a_scope_refuses_what_it_would_not_take(
    settings_module: ModuleType, knobs: tuple[KnobInfo, ...], override: dict[str, object]
) -> None:
    resolution = resolve(knobs, environ={})
    with pytest.raises(UserError), scope(resolution, settings_module.Settings, **override):
        pass


def test_importing_settings_is_cheap(knob_files: tuple[GeneratedFile, ...], tmp_path: Path) -> None:
    path = tmp_path / "settings.py"
    path.write_text(next(file.text for file in knob_files if file.path.endswith("settings.py")))
    heavy = ("torch", "numpy", "jinja2", "pydantic", "yaml", "strata_gen", "click")
    code = f"import settings, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
