"""Plans and rendered files for tests of knobs."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

from strata_gen.emitter import GeneratedFile
from strata_gen.model.specset import SpecSet
from strata_gen.render import render
from strata_gen.resolve import Plan, find_target, make_plan
from strata_gen.views import knobs


def plan_for(specs: SpecSet, set_values: Mapping[str, str] | None = None) -> Plan:
    """A plan for a CPU target that does not depend on this machine."""
    return make_plan(specs, find_target(specs, "cpu", "x86-64-v3"), set_values or {})


def render_knobs(plan: Plan) -> tuple[GeneratedFile, ...]:
    """The files that are made from knobs alone."""
    return render(plan, knobs.EMITTERS)


def import_settings(files: Iterable[GeneratedFile], folder: Path) -> ModuleType:
    """Import the generated `settings.py` among `files`, under a name of its own."""
    path = folder / "settings.py"
    path.write_text(next(file.text for file in files if file.path.endswith("/settings.py")), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"settings_{abs(hash(str(folder)))}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
