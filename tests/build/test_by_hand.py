"""Ninja run by hand: what was edited is emitted again first, by the same generator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from strata_gen.build import BuildRequest, build
from strata_gen.paths import project_root, templates_root
from strata_gen.progress import Reporter
from support.small_project import SmallProject, environment

_EMIT = """
import sys
from pathlib import Path
from strata_gen.write import write_tree
from support.small_project import SmallProject
small = SmallProject(Path(sys.argv[1]))
tree = small.tree()
write_tree(small.layout().tree, tree.files, tree.target, tree.spec_hash)
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    base = environment(tmp_path / "home")
    return {**base, "PYTHONPATH": f"{project_root() / 'tests'}:{base['PYTHONPATH']}"}


@pytest.fixture
def built(small: SmallProject, reporter: Reporter, environ: dict[str, str]) -> SmallProject:
    command = (sys.executable, "-c", _EMIT, str(small.root))
    build(BuildRequest(small.tree(), small.layout(), 2, use_cache=False, emit_command=command), reporter, environ)
    return small


def ninja(small: SmallProject, environ: dict[str, str]) -> str:
    done = subprocess.run(
        ["ninja", "_native"], cwd=small.layout().cmake, env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_specs_templates_modules_and_sources_are_dependencies(built: SmallProject) -> None:
    text = (built.layout().root / "reemit.cmake").read_text()
    for path in (
        built.root / "specs/knobs/window.yaml",
        built.root / "templates/limits.hpp.j2",
        built.root / "runtime/src/answer.cpp",
        templates_root() / "sources.cmake.j2",
        project_root() / "generator/strata_gen/render.py",
    ):
        assert f"[==[{path}]==]" in text


def test_an_edit_is_emitted_and_only_what_it_changes_is_compiled(built: SmallProject, environ: dict[str, str]) -> None:
    assert "no work to do" in ninja(built, environ)
    knobs = built.root / "specs/knobs/window.yaml"
    knobs.write_text(knobs.read_text().replace("default: 8", "default: 9"))
    output = ninja(built, environ)
    assert "bindings.cpp" in output and "answer.cpp" not in output
    assert "kMaxWindow = 9" in (built.layout().tree / "include/strata/gen/limits.hpp").read_text()
    assert "no work to do" in ninja(built, environ)


def test_a_new_source_is_found(built: SmallProject, environ: dict[str, str]) -> None:
    (built.root / "runtime/src/extra.cpp").write_text("int extra_symbol() { return 1; }\n")
    assert "extra.cpp" in ninja(built, environ)


def test_without_the_generator_the_tree_is_built_as_it_is(
    small: SmallProject, reporter: Reporter, environ: dict[str, str]
) -> None:
    command = ("/bin/false", "stands for a Python that cannot import strata_gen")
    build(BuildRequest(small.tree(), small.layout(), 2, use_cache=False, emit_command=command), reporter, environ)
    small.source.write_text(small.source.read_text() + "// edited\n")
    ninja(small, environ)
    assert "// edited" not in (small.layout().tree / "runtime/src/answer.cpp").read_text()
