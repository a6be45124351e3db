"""`strata/gen/target.hpp`: the facts of one target as C++ constants."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import jinja2
import pytest
from jinja2 import meta

from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Target
from strata_gen.paths import project_root, specs_root, templates_root
from strata_gen.render import render
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.views.target import EMITTERS, TargetView

ALL = [(target.backend, target.name) for target in load_specs((specs_root(),)).targets]
STRICT = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]


def header(specs: SpecSet, target: Target) -> str:
    (file,) = render(make_plan(specs, target, {}), EMITTERS[:1])
    assert file.path == "include/strata/gen/target.hpp"
    return file.text


def compiles(text: str, folder: Path) -> bool:
    source = folder / "source.cpp"
    source.write_text(text)
    return subprocess.run([*STRICT, str(source)], capture_output=True).returncode == 0


@pytest.mark.parametrize(("backend", "name"), ALL)
def test_it_compiles_as_plain_cpp17_for_every_declared_target(
    specs: SpecSet, backend: str, name: str, tmp_path: Path
) -> None:
    (tmp_path / "target.hpp").write_text(header(specs, find_target(specs, backend, name)))
    assert compiles('#include "target.hpp"\n#include "target.hpp"\nint main() {}\n', tmp_path)


def test_constants_hold_the_targets_facts(specs: SpecSet, tmp_path: Path) -> None:
    (tmp_path / "target.hpp").write_text(header(specs, find_target(specs, "hip", "gfx1151")))
    checks = [
        *("kBackend == Backend::kHip", "kDot == Dot::kSudot4", "kMappedStores == MappedStores::kFineGrained"),
        *("kWaveSize == 32", "kSharedBytes == 65536", "kHasUnifiedMemory", "!kHasAsyncCopy"),
        *("kMatrixLanes == MatrixLanes::kWmma", "kMatrixShapes[0].m == 16"),
        "sizeof(kMatrixShapes) / sizeof(MatrixShape) == 3",
    ]
    asserts = "".join(f"static_assert({check});\n" for check in checks)
    source = f'#include "target.hpp"\nusing namespace strata::target;\n{asserts}'
    assert compiles(source, tmp_path)
    assert not compiles(source + "static_assert(kWaveSize == 64);\n", tmp_path)


def test_a_fact_that_is_not_known_is_not_declared(specs: SpecSet, tmp_path: Path) -> None:
    (tmp_path / "target.hpp").write_text(header(specs, find_target(specs, "cpu", "x86-64-v3")))
    use = '#include "target.hpp"\nint main() {{ return {0} == {0} ? 0 : 1; }}\n'
    assert compiles(use.format("strata::target::kLevels[0].vector_bytes"), tmp_path)
    assert not compiles(use.format("strata::target::kWaveSize"), tmp_path)


def test_only_facts_of_the_target_itself_are_in_it(specs: SpecSet) -> None:
    assert "sm_" not in header(specs, find_target(specs, "hip", "gfx942"))


@pytest.mark.parametrize(("backend", "name"), [("cuda", "sm_90"), ("hip", "gfx942"), ("cpu", "x86-64-v2")])
def test_it_is_formatted_like_hand_written_code(specs: SpecSet, backend: str, name: str) -> None:
    text = header(specs, find_target(specs, backend, name))
    command = [str(Path(sys.executable).with_name("clang-format")), "--assume-filename=include/target.hpp"]
    done = subprocess.run(command, input=text, text=True, capture_output=True, check=True, cwd=project_root())
    assert done.stdout == text


def test_the_template_uses_every_field_of_its_view() -> None:
    source = (templates_root() / EMITTERS[0].template).read_text()
    used = meta.find_undeclared_variables(jinja2.Environment().parse(source))
    assert used == {field.name for field in fields(TargetView)} | {"banner"}


@pytest.mark.parametrize(("backend", "name", "unified"), [("hip", "gfx1151", True), ("hip", "gfx1100", False)])
def test_the_runtime_is_told_whether_device_and_host_share_a_memory(
    specs: SpecSet, backend: str, name: str, unified: bool
) -> None:
    files = render(make_plan(specs, find_target(specs, backend, name), {}), EMITTERS)
    module: dict[str, object] = {}
    exec(next(file.text for file in files if file.path == "python/target.py"), module)
    assert module["UNIFIED_MEMORY"] is unified
