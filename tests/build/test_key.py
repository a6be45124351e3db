"""The build key: everything that decides the code is in it, and nothing else."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.emitter import GeneratedFile
from strata_gen.key import build_key
from strata_gen.model.knob import Affects, Knob, KnobType
from strata_gen.paths import specs_root
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.toolchain import find_toolchain
from strata_gen.tree import make_tree
from support.small_project import SmallProject, environment


def key(small: SmallProject, home: Path, set_values: dict[str, str] | None = None, **extra: str) -> str:
    return build_key(small.tree(set_values).files, find_toolchain(environment(home, **extra)))


def moved(small: SmallProject) -> SmallProject:
    elsewhere = small.root.parent / "a folder with spaces" / "moved"
    shutil.copytree(small.root, elsewhere)
    return SmallProject(elsewhere)


def touched(small: SmallProject) -> SmallProject:
    for path in small.root.rglob("*"):
        os.utime(path, (1, 1))
    return small


def with_a_build(small: SmallProject) -> SmallProject:
    (small.root / "build/cpu").mkdir(parents=True)
    (small.root / "notes.txt").write_text("x")
    return small


def with_another_stress_test(small: SmallProject) -> SmallProject:
    (small.root / "tests/native/stress.cpp").write_text("int main() {}\n")
    return small


@pytest.mark.parametrize("change", [moved, touched, with_a_build, with_another_stress_test])
def test_what_leaves_the_code_alone_leaves_the_key_alone(
    small: SmallProject, tmp_path: Path, change: Callable[[SmallProject], SmallProject]
) -> None:
    before = key(small, tmp_path)
    assert key(change(small), tmp_path) == before


@pytest.mark.parametrize(
    "extra",
    [
        {"HOME": "/somewhere/else"},
        {"MAKEFLAGS": "-j7"},
        {"CMAKE_BUILD_PARALLEL_LEVEL": "3"},
        {"CXX": ""},
        {"CXX": "c++"},
        {"STRATA_WINDOW_TOKENS": "2"},
        {"LANG": "de_DE.UTF-8"},
    ],
)
def test_environment_that_leaves_the_code_alone_leaves_the_key_alone(
    small: SmallProject, tmp_path: Path, extra: dict[str, str]
) -> None:
    assert key(small, tmp_path, **extra) == key(small, tmp_path)


def test_a_symlinked_compiler_gives_the_same_key(small: SmallProject, tmp_path: Path) -> None:
    link = tmp_path / "g++-linked"
    link.symlink_to(shutil.which("c++") or "")
    assert key(small, tmp_path, CXX=str(link)) == key(small, tmp_path)


def edit(path: str, old: str, new: str) -> Callable[[SmallProject], None]:
    def apply(small: SmallProject) -> None:
        text = (small.root / path).read_text()
        assert old in text
        (small.root / path).write_text(text.replace(old, new, 1))

    return apply


@pytest.mark.parametrize(
    "change",
    [
        edit("runtime/include/strata/answer.hpp", "42", "43"),
        edit("runtime/src/answer.cpp", "return", "return "),
        edit("CMakeLists.txt", "-O3", "-O2"),
        edit("templates/limits.hpp.j2", "constexpr", "inline constexpr"),
        edit("specs/knobs/window.yaml", "default: 8", "default: 9"),
        edit("specs/targets/cpu.yaml", "    abstract: true\n", "    abstract: true\n    flags: [-mpopcnt]\n"),
    ],
)
def test_one_changed_byte_of_an_input_is_another_key(
    small: SmallProject, tmp_path: Path, change: Callable[[SmallProject], None]
) -> None:
    before = key(small, tmp_path)
    change(small)
    assert key(small, tmp_path) != before


@pytest.mark.parametrize("extra", [{"CXXFLAGS": "-DX=1"}, {"LDFLAGS": "-Wl,-z,now"}, {"CXX": "c++ -g"}])
def test_flags_of_the_user_are_in_the_key(small: SmallProject, tmp_path: Path, extra: dict[str, str]) -> None:
    assert key(small, tmp_path, **extra) != key(small, tmp_path)


def test_a_build_time_knob_is_in_the_key(small: SmallProject, tmp_path: Path) -> None:
    assert key(small, tmp_path, {"window.max_tokens": "16"}) != key(small, tmp_path)
    assert key(small, tmp_path, {"window.max_tokens": "8"}) == key(small, tmp_path)


def test_what_compiles_and_binds_is_in_the_key(
    small: SmallProject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [key(small, tmp_path)]
    with monkeypatch.context() as patch:
        patch.setattr("strata_gen.key.python_abi", lambda: "cpython-27")
        keys.append(key(small, tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr("strata_gen.key.metadata.version", lambda package: f"another {package}")
        keys.append(key(small, tmp_path))
    assert len(set(keys)) == len(keys)


def test_text_that_moves_to_another_file_or_across_a_border_is_another_key(tmp_path: Path) -> None:
    toolchain = find_toolchain(environment(tmp_path))

    def key_of(*files: tuple[str, str]) -> str:
        return build_key([GeneratedFile(path, text, ()) for path, text in files], toolchain)

    keys = [
        key_of(("a.hpp", "1"), ("b.hpp", "2")),
        key_of(("a.hpp", "2"), ("b.hpp", "1")),
        key_of(("a.hpp", "1"), ("c.hpp", "2")),
        key_of(("a.hpp", "1b.hpp2")),
        key_of(("a.hpp", "1b"), (".hpp", "2")),
    ]
    assert len(set(keys)) == len(keys)


def test_a_comment_in_a_spec_changes_no_key(small: SmallProject, tmp_path: Path) -> None:
    before = key(small, tmp_path)
    edit("specs/knobs/window.yaml", "knobs:", "# the window\nknobs:")(small)
    assert key(small, tmp_path) == before


def another_value(knob: Knob) -> str:
    """Text of a value that fits and is not the default."""
    if knob.type is KnobType.BOOL:
        return "false" if knob.default else "true"
    if knob.choices:
        return next(choice for choice in knob.choices if choice != knob.default)
    assert isinstance(knob.default, int | float)
    step = knob.range.multiple_of or 1
    top = knob.range.maximum if knob.range.maximum is not None else knob.default + step
    return str(knob.default + step if knob.default + step <= top else knob.default - step)


def test_exactly_the_build_time_knobs_of_the_project_are_in_its_key(tmp_path: Path) -> None:
    specs = load_specs([specs_root()])
    target = find_target(specs, "cpu", "x86-64-v3")

    def project_key(set_values: dict[str, str], **extra: str) -> str:
        tree = make_tree(make_plan(specs, target, set_values), [specs_root()])
        return build_key(tree.files, find_toolchain(environment(tmp_path, **extra)))

    before = project_key({})
    for knob in specs.knobs:
        if knob.affects is Affects.COMPILE:
            assert project_key({knob.name: another_value(knob)}) != before, knob.name
    others = {knob.env: "1" for knob in specs.knobs if knob.affects is not Affects.COMPILE}
    assert project_key({}, **others) == before
