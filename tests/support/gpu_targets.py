"""Device code of every GPU target that the specs declare, compiled, with what each kernel takes compared with a table.

    PYTHONPATH=tests python -m support.gpu_targets [--write] [ARCH...]

It takes nvcc, clang with lld, and no GPU.
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

from strata_gen.build import find_device_compiler
from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError
from strata_gen.jobs import default_jobs
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend, Target
from strata_gen.paths import specs_root
from strata_gen.resolve import make_plan, targets_in_order
from strata_gen.specs import load_specs
from strata_gen.tree import Tree, make_tree
from strata_gen.views.package import is_gpu_source, is_native_source
from support.gpu_resources import Figures, Table, differences, read_figures, read_table, unknown, write_table

GPUS = (Backend.CUDA, Backend.HIP)
COMMON = ("-std=c++20", "-O3", "-DNDEBUG", "-Iinclude", "-Iruntime/include")
FLAGS = {
    Backend.CUDA: (*("-cubin", "-fmad=false", "--expt-relaxed-constexpr", "-Werror", "all-warnings", "-Xptxas", "-v"),),
    Backend.HIP: (
        *("-x", "hip", "-c", "--cuda-device-only", "--no-gpu-bundle-output", "-fvisibility=hidden"),
        *("-ffp-contract=off", "-fno-fast-math", "-Wall", "-Wextra", "-Werror"),
        "-Rpass-analysis=kernel-resource-usage",
    ),
}
REWRITE = "PYTHONPATH=tests .venv/bin/python -m support.gpu_targets --write"


@dataclass(frozen=True)
class Compiled:
    """One source compiled for one target. `problem` is what the compiler said where it failed."""

    arch: str
    source: str
    seconds: float
    problem: str
    figures: dict[str, Figures]


def declared(specs: SpecSet, backend: Backend) -> list[Target]:
    """Every target of a backend."""
    return [target for target in targets_in_order(specs.targets) if target.backend is backend]


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


def compile_one(compiler: Path, target: Target, folder: Path, source: str) -> Compiled:
    command = [compiler, *target.architecture_flags, *target.flags, *FLAGS[target.backend], *COMMON]
    start = time.monotonic()
    done = subprocess.run([*command, source, "-o", os.devnull], cwd=folder, capture_output=True, text=True)
    problem = done.stderr if done.returncode else ""
    figures = {} if problem else read_figures(target.backend, done.stderr)
    return Compiled(target.name, source, time.monotonic() - start, problem, figures)


def compile_all(specs: SpecSet, compiler: Path, targets: Sequence[Target], root: Path) -> Iterator[Compiled]:
    """Compile all device code for every target, as many sources at once as there are cores and memory for."""
    with ThreadPoolExecutor(default_jobs()) as pool:
        jobs = []
        for target in targets:
            tree, folder = make_tree(make_plan(specs, target, {}), (specs_root(),)), root / target.name
            jobs += [
                pool.submit(compile_one, compiler, target, folder, source) for source in write_device_code(tree, folder)
            ]
        try:
            yield from (job.result() for job in jobs)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # what has not begun does not begin
            raise


def check_backend(specs: SpecSet, backend: Backend, targets: Sequence[Target], *, write: bool) -> int:
    """Compile the targets of a backend and compare or write its table; return how many lines are wrong."""
    try:
        compilers = {find_device_compiler(target, os.environ).compiler for target in targets}
    except GeneratorError as problem:
        print(f"nothing was compiled for {backend}: {problem.render()}")
        return 1
    archs, found, wrong = [target.name for target in targets], Table(), 0
    start, seconds = time.monotonic(), dict.fromkeys(archs, 0.0)
    with tempfile.TemporaryDirectory() as root:
        for compiled in compile_all(specs, compilers.pop(), targets, Path(root)):
            seconds[compiled.arch] += compiled.seconds
            for kernel, figures in compiled.figures.items():
                found.setdefault(kernel, {})[compiled.arch] = figures
            if compiled.problem:
                wrong += 1
                print(f"{compiled.arch} {compiled.source}:\n{compiled.problem}")
    took = ", ".join(f"{arch} {each:.0f} s" for arch, each in seconds.items())
    print(f"{len(archs)} {backend} targets in {time.monotonic() - start:.0f} s ({took}): {wrong} sources failed")
    known = read_table(backend)
    if not write:
        if missing := unknown(known, archs):
            print(f"the table has no figures of {', '.join(missing)}: {REWRITE} {' '.join(missing)}")
        wrong += len(missing)
        lines = differences(backend, known, found, archs)
        print("\n".join((*lines, f"rewrite the table with: {REWRITE}" if lines else f"{len(found)} kernels as known")))
        return wrong + len(lines)
    if not wrong:
        kept = {kernel: {a: c for a, c in cells.items() if a not in archs} for kernel, cells in known.items()}
        merged = {kernel: {**kept.get(kernel, {}), **found.get(kernel, {})} for kernel in (*kept, *found)}
        every = [target.name for target in declared(specs, backend)]
        write_table(backend, {kernel: cells for kernel, cells in merged.items() if cells}, every)
    return wrong


def main(words: Sequence[str] | None = None) -> int:
    """Compile what the command line names: every declared target when it names none."""
    parser = argparse.ArgumentParser(prog="gpu_targets", description="Compile the device code of GPU targets.")
    parser.add_argument("archs", nargs="*", metavar="ARCH")
    parser.add_argument("--write", action="store_true", help="Write the table of what kernels take.")
    given = parser.parse_args(words)
    specs = load_specs((specs_root(),))
    known = [target.name for backend in GPUS for target in declared(specs, backend)]
    for arch in given.archs:
        if arch not in known:
            parser.error(
                f"{arch} is no target for a GPU; {did_you_mean(arch, known) or 'there are ' + ', '.join(known)}"
            )
    wrong = 0
    for backend in GPUS:
        targets = [each for each in declared(specs, backend) if not given.archs or each.name in given.archs]
        wrong += check_backend(specs, backend, targets, write=given.write) if targets else 0
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted")
