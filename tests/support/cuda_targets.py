"""Device code of every CUDA target that the specs declare, compiled; and one whole package, built and imported.

    PYTHONPATH=tests python -m support.cuda_targets [--package ARCH] [ARCH...]

It takes nvcc and no GPU. Without nvcc nothing is compiled, and a line says so.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from strata_gen.build import BuildRequest, build
from strata_gen.errors import GeneratorError
from strata_gen.failures import BuildFailure
from strata_gen.gpu_compiler import check_gpu_compiler, find_gpu_compiler
from strata_gen.jobs import default_jobs
from strata_gen.layout import layout_of
from strata_gen.model.target import Backend
from strata_gen.paths import specs_root
from strata_gen.progress import Reporter
from strata_gen.resolve import find_target, make_plan, targets_in_order
from strata_gen.specs import load_specs
from strata_gen.tree import Tree, make_tree
from strata_gen.views.package import is_gpu_source, is_native_source

FLAGS = (
    "-cubin",
    "-std=c++20",
    "-fmad=false",
    "--expt-relaxed-constexpr",
    "-O3",
    "-DNDEBUG",
    "-Werror",
    "all-warnings",
)


@dataclass(frozen=True)
class Compiled:
    """One source compiled for one target."""

    arch: str
    source: str
    seconds: float
    problem: str


def declared() -> list[str]:
    """Every CUDA target of the specs."""
    targets = targets_in_order(load_specs((specs_root(),)).targets)
    return [target.name for target in targets if target.backend is Backend.CUDA]


def tree_of(arch: str) -> Tree:
    specs = load_specs((specs_root(),))
    return make_tree(make_plan(specs, find_target(specs, "cuda", arch), {}), (specs_root(),))


def write_device_code(tree: Tree, folder: Path) -> list[str]:
    """Write the headers and the device code of a tree; return the paths of the latter."""
    found = []
    for file in tree.files:
        is_gpu = is_native_source(file.path) and is_gpu_source(file.path)
        if is_gpu or "include/" in file.path:
            path = folder / file.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(file.text, encoding="utf-8")
        if is_gpu:
            found.append(file.path)
    return found


def compile_one(nvcc: Path, tree: Tree, folder: Path, source: str) -> Compiled:
    target = tree.plan.target
    command = [str(nvcc), *target.architecture_flags, *target.flags, *FLAGS, "-Iinclude", "-Iruntime/include"]
    start = time.monotonic()
    done = subprocess.run([*command, source, "-o", os.devnull], cwd=folder, capture_output=True, text=True)
    return Compiled(target.name, source, time.monotonic() - start, done.stderr if done.returncode else "")


def compile_all(nvcc: Path, archs: Sequence[str], root: Path) -> Iterator[Compiled]:
    """Compile all device code for every target, as many sources at once as there are cores and memory for."""
    with ThreadPoolExecutor(default_jobs()) as pool:
        jobs = []
        for arch in archs:
            tree, folder = tree_of(arch), root / arch
            sources = write_device_code(tree, folder)
            jobs += [pool.submit(compile_one, nvcc, tree, folder, source) for source in sources]
        yield from (job.result() for job in jobs)


def build_package(arch: str) -> int:
    """Build and import one package; return the exit code of `strata-gen build`."""
    tree = tree_of(arch)
    try:
        result = build(BuildRequest(tree, layout_of(tree.plan)), Reporter(sys.stderr), os.environ)
    except (BuildFailure, GeneratorError) as problem:
        print(problem.render())
        return 1
    print(result.render())
    return 0


def main() -> int:
    """Compile what the command line names: every declared target when it names none."""
    parser = argparse.ArgumentParser(prog="cuda_targets", description="Compile the device code of CUDA targets.")
    parser.add_argument("archs", nargs="*", metavar="ARCH")
    parser.add_argument("--package", metavar="ARCH", help="Build and import the whole package of this one, too.")
    given = parser.parse_args()
    try:
        nvcc = find_gpu_compiler(os.environ)
    except GeneratorError as problem:
        print(f"SKIPPED, nothing was compiled: {problem.what}")
        return 0
    archs = given.archs or declared()
    specs = load_specs((specs_root(),))
    for arch in archs:
        check_gpu_compiler(nvcc, find_target(specs, "cuda", arch))
    failed = 0
    with tempfile.TemporaryDirectory() as root:
        start, seconds = time.monotonic(), dict.fromkeys(archs, 0.0)
        for compiled in compile_all(nvcc.compiler, archs, Path(root)):
            seconds[compiled.arch] += compiled.seconds
            if compiled.problem:
                failed += 1
                print(f"{compiled.arch} {compiled.source}:\n{compiled.problem}")
        took = ", ".join(f"{arch} {each:.0f} s" for arch, each in seconds.items())
        print(f"{len(archs)} targets in {time.monotonic() - start:.0f} s ({took}): {failed} sources failed")
    status = build_package(given.package) if given.package else 0
    return 1 if failed else status


if __name__ == "__main__":
    sys.exit(main())
