"""A project of three small C++ files that builds in a second: the real build code over a tree of its own."""

from __future__ import annotations

import os
import shutil
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from strata_gen.build import BuildRequest, BuildResult, build
from strata_gen.emitter import Emitter
from strata_gen.layout import Layout, layout_of
from strata_gen.paths import project_root, runtime_root, templates_root
from strata_gen.progress import Reporter
from strata_gen.resolve import Plan, find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.tree import Tree, make_tree
from strata_gen.views import target

FIXTURE = project_root() / "tests" / "build" / "project"
ARCH = "x86-64-v2"

_KNOBS = """\
knobs:
  - name: window.max_tokens
    type: int
    default: 8
    range: {min: 1, max: 64}
    affects: compile
    output: identical
    help: Positions in one window at most.
    since: "0.1"
  - name: window.tokens
    type: int
    default: 4
    range: {min: 1, max: 64}
    affects: runtime
    output: identical
    help: Positions in one window.
    since: "0.1"
"""


@dataclass(frozen=True)
class LimitsView:
    max_window: int


@dataclass(frozen=True)
class LevelView:
    otherwise: int


def _limits(plan: Plan) -> tuple[tuple[str, LimitsView], ...]:
    value = plan.compile_values["window.max_tokens"]
    assert isinstance(value, int)
    return (("include/strata/gen/limits.hpp", LimitsView(value)),)


def _level(plan: Plan) -> tuple[tuple[str, LevelView], ...]:
    strongest = plan.levels[-1]
    return ((f"src/levels/{strongest.isa}/vector_bytes.cpp", LevelView(16)),)


def slices() -> ModuleType:
    """A module with the two emitters of the small project."""
    module = ModuleType("small_project_slices")
    module.EMITTERS = (  # type: ignore[attr-defined]
        Emitter("limits.hpp.j2", _limits, lambda _plan: ("specs/knobs/window.yaml",)),
        Emitter("level.cpp.j2", _level, lambda _plan: ()),
    )
    return module


@dataclass(frozen=True)
class SmallProject:
    """One copy of the fixture with its own specs; everything below `root` may be edited."""

    root: Path

    @property
    def specs(self) -> Path:
        return self.root / "specs"

    @property
    def header(self) -> Path:
        return self.root / "runtime/include/strata/answer.hpp"

    @property
    def source(self) -> Path:
        return self.root / "runtime/src/answer.cpp"

    def tree(self, set_values: Mapping[str, str] | None = None, arch: str = ARCH, backend: str = "cpu") -> Tree:
        specs = load_specs([self.specs])
        plan = make_plan(specs, find_target(specs, backend, arch), set_values or {})
        modules = (slices(), *((target,) if backend == "hip" else ()))
        return make_tree(plan, [self.specs], project=self.root, modules=modules)

    def layout(self, out: Path | None = None, arch: str = ARCH) -> Layout:
        return layout_of(self.tree(arch=arch).plan, out or self.root / "build")


def make_small_project(root: Path) -> SmallProject:
    """Copy the fixture, the real CMakeLists.txt and the real CPU targets to `root`."""
    shutil.copytree(FIXTURE, root)
    shutil.copy(project_root() / "CMakeLists.txt", root)
    (root / "specs/knobs").mkdir(parents=True)
    (root / "specs/knobs/window.yaml").write_text(_KNOBS)
    (root / "specs/targets").mkdir()
    shutil.copy(project_root() / "specs/targets/cpu.yaml", root / "specs/targets")
    return SmallProject(root)


def _add_targets(small: SmallProject, name: str) -> None:
    """Add a file of the real targets, for one level of CPUs, and the knobs that they have defaults for."""
    targets = (project_root() / "specs/targets" / name).read_text(encoding="utf-8")
    (small.specs / "targets" / name).write_text(targets.replace("host: x86-64-v2", "host: x86-64-v4-vnni"))
    shutil.copy(project_root() / "specs/knobs/engine.yaml", small.specs / "knobs")


def make_gpu_project(root: Path) -> SmallProject:
    """A small project that also has the real CUDA targets, for one level of CPUs, and a launch."""
    small = make_small_project(root)
    _add_targets(small, "cuda.yaml")
    shutil.copytree(project_root() / "tests" / "build" / "gpu", root, dirs_exist_ok=True)
    return small


def make_hip_project(root: Path) -> SmallProject:
    """A small project that also has the real HIP targets, for one level of CPUs, and launches by the real runtime."""
    small = make_small_project(root)
    _add_targets(small, "hip.yaml")
    for template in ("target.hpp.j2", "target.py.j2"):
        shutil.copy(templates_root() / template, root / "templates")
    for path in ("include/strata/hip", "include/strata/device/query.hpp", "src/hip"):
        copy = shutil.copytree if (runtime_root() / path).is_dir() else shutil.copy
        (root / "runtime" / path).parent.mkdir(parents=True, exist_ok=True)
        copy(runtime_root() / path, root / "runtime" / path)
    shutil.copytree(project_root() / "tests" / "build" / "hip", root, dirs_exist_ok=True)
    return small


def make_compiler(folder: Path, *, before: str = "", name: str = "c++") -> Path:
    """Write a compiler that runs the shell line `before` and notes in `compiles.log` each time it compiles a file."""
    folder.mkdir(parents=True, exist_ok=True)
    real = shutil.which("c++")
    path = folder / name
    path.write_text(
        f'#!/bin/sh\ncase " $* " in *" -c "*tree/*) echo "$*" >> "{folder}/compiles.log"; {before}\n;; esac\n'
        f'exec {real} "$@"\n'
    )
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def compiles(compiler: Path) -> int:
    """How many files a compiler of `make_compiler` has compiled."""
    log = compiler.parent / "compiles.log"
    return len(log.read_text().splitlines()) if log.exists() else 0


def environment(home: Path, **extra: str) -> dict[str, str]:
    """The environment of one user: its own home and cache, nothing of the tester's compiler settings."""
    drop = ("CC", "CXX", "CXXFLAGS", "LDFLAGS", "XDG_CACHE_HOME", "CUDACXX", "CUDA_HOME", "CUDA_PATH")
    drop += ("HIPCXX", "ROCM_PATH", "HIP_PATH")
    kept = {name: value for name, value in os.environ.items() if name not in drop}
    path = os.pathsep.join([str(project_root() / "generator"), str(project_root() / "runtime"), *sys.path])
    return {**kept, "HOME": str(home), "PYTHONPATH": path, **extra}


class Builds:
    """Builds of the small project in this process, with a home and cache of the test's own."""

    def __init__(self, small: SmallProject, home: Path, reporter: Reporter) -> None:
        self.small, self.home, self.reporter = small, home, reporter

    def __call__(
        self, *, set_values: dict[str, str] | None = None, out: Path | None = None, cache: bool = True, **extra: str
    ) -> BuildResult:
        tree = self.small.tree(set_values)
        request = BuildRequest(tree, self.small.layout(out), jobs=2, use_cache=cache)
        return build(request, self.reporter, environment(self.home, **extra))
