"""Small C++ programs around the runtime's sources, compiled once per content and kept in the build folder."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from strata_gen.paths import project_root, runtime_root
from support.compiler import compiler_words

_OUT = project_root() / "build" / "tests" / "native"
_FLAGS = ("-std=c++20", "-O1", "-g1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-pthread")


@dataclass(frozen=True)
class Unit:
    """One source and the flags that only it gets."""

    path: Path
    flags: tuple[str, ...] = ()


def compile_program(
    name: str,
    units: Sequence[Unit],
    includes: Sequence[Path] = (runtime_root() / "include",),
    sanitizer: str = "",
) -> Path:
    """Compile and link `units`; `sanitizer` is what follows `-fsanitize=`. Skips the test without a compiler."""
    compiler = compiler_words()
    flags = (*_FLAGS, *((f"-fsanitize={sanitizer}", "-fno-sanitize-recover=all") if sanitizer else ()))
    program = _OUT / f"{name}-{_key(units, includes, (*compiler, *flags))}"
    _OUT.mkdir(parents=True, exist_ok=True)
    with FileLock(_OUT / f"{name}.lock"):  # tests run in several processes
        if not program.is_file():
            _compile(program, [*compiler, *flags], units, includes)
    return program


def _compile(program: Path, command: Sequence[str], units: Sequence[Unit], includes: Sequence[Path]) -> None:
    objects = program.with_name(f".{program.name}.{os.getpid()}")
    objects.mkdir(exist_ok=True)
    paths = [f"-I{path}" for path in includes]

    def compile_one(numbered: tuple[int, Unit]) -> str:
        index, unit = numbered
        target = objects / f"{index}.o"
        _run([*command, *unit.flags, *paths, "-c", str(unit.path), "-o", str(target)])
        return str(target)

    try:
        with ThreadPoolExecutor(max_workers=2) as workers:
            linked = list(workers.map(compile_one, enumerate(units)))
        _run([*command, *linked, "-o", str(objects / "program")])
        (objects / "program").replace(program)
    finally:
        shutil.rmtree(objects)


def _key(units: Sequence[Unit], includes: Sequence[Path], words: Sequence[str]) -> str:
    digest = hashlib.sha256("\0".join(words).encode())
    headers = [path for include in includes for path in sorted(include.rglob("*.hpp"))]
    beside = [path for unit in units for path in sorted(unit.path.parent.glob("*.hpp"))]
    for path in (*(unit.path for unit in units), *headers, *beside):
        digest.update(path.name.encode() + path.read_bytes())
    for unit in units:
        digest.update(" ".join(unit.flags).encode())
    return digest.hexdigest()[:16]


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"


def run_program(program: Path, *arguments: str, seconds: float = 120) -> str:
    """Run to a clean end and return standard output."""
    environment = {**os.environ, "TSAN_OPTIONS": "halt_on_error=1", "UBSAN_OPTIONS": "print_stacktrace=1"}
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, timeout=seconds, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert not done.stderr, done.stderr
    return done.stdout
