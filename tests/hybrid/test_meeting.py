"""The hybrid path as a C++ program under sanitizers: both halves of a window, and the pool behind the host half."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from strata_gen.paths import runtime_root, specs_root
from strata_gen.render import render_tree
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from support.native_programs import Unit, compile_program, run_program

SOURCES = ("board", "host_half", "experts", "weights", "level_choice", "cpu_features", "cpus", "knob_text")
# Words and kinds, for every combination; plan_ready where the host half plans, partial_ready where it splits.
FAULTS = 8 * 3 * 4 + 4 * 4 + 4 * 4


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_the_halves_meet_cleanly_and_every_fault_is_survived_or_noticed(tmp_path: Path, sanitizer: str) -> None:
    specs = load_specs((specs_root(),))
    specs = replace(specs, formats=tuple(spec for spec in specs.formats if spec.name == "f32"))
    plan = make_plan(specs, find_target(specs, "cpu", "native"), {"window.max_tokens": "2"})
    for file in render_tree(plan):
        path = tmp_path / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    flags = {level.isa: level.flags for level in plan.target.levels}
    units = [
        Unit(Path(__file__).parent / "meeting.cpp"),
        *(Unit(runtime_root() / "src" / f"{name}.cpp") for name in SOURCES),
        *map(Unit, sorted((tmp_path / "src" / "gen").glob("*.cpp"))),
        *(Unit(path, flags[path.parent.name]) for path in sorted((tmp_path / "src" / "levels").glob("*/*.cpp"))),
    ]
    program = compile_program("meeting", units, (tmp_path / "include", runtime_root() / "include"), sanitizer)
    assert run_program(program, "60") == f"{FAULTS} faults\n"
