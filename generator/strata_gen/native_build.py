"""CMake and Ninja over one tree: configured when needed, with their output read as it comes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import pybind11

from strata_gen.failures import BuildFailure, first_error, hint_for, with_origins
from strata_gen.key import python_abi
from strata_gen.layout import Layout, shown
from strata_gen.model.target import CompilerFamily
from strata_gen.progress import Reporter, counted
from strata_gen.toolchain import Toolchain
from strata_gen.tools import clean_environment, find_tool, running
from strata_gen.write import read_manifest, write_atomically

CMAKE_MINIMUM = (3, 25)
_STAMP = "strata-configured.json"
_PROGRESS = re.compile(r"^\[(\d+)/(\d+)\] (.*)$")
_OBJECT = re.compile(r"(?:Building (?:CXX|CUDA|HIP) object |-o )CMakeFiles/[^/]+\.dir/(\S+)\.o(?: -c|$)")


def _lines(process: subprocess.Popen[str], log: IO[str]) -> Iterator[str]:
    assert process.stdout is not None
    for line in process.stdout:
        log.write(line)
        yield line.rstrip("\n")


def _gpu_settings(tool: Toolchain) -> dict[str, Path]:
    if tool.gpu is None:
        return {}
    if tool.gpu.family is CompilerFamily.NVCC:
        return {"CMAKE_CUDA_COMPILER": tool.gpu.compiler, "CMAKE_CUDA_HOST_COMPILER": tool.compiler}
    return {"STRATA_HIP_COMPILER": tool.gpu.compiler}


@dataclass(frozen=True, slots=True)
class NativeBuild:
    """One CMake folder over one tree."""

    layout: Layout
    toolchain: Toolchain
    environ: Mapping[str, str]
    reporter: Reporter
    verbose: bool = False

    @property
    def log(self) -> Path:
        """The file with everything that CMake, Ninja and the compilers said."""
        return self.layout.logs / "build.log"

    def _configure_command(self) -> list[str]:
        tool, python = self.toolchain, sys.executable
        settings = {
            "CMAKE_MAKE_PROGRAM": find_tool("ninja"),
            "CMAKE_CXX_COMPILER": tool.compiler,
            "CMAKE_CXX_COMPILER_LAUNCHER": tool.launcher,
            "CMAKE_CXX_FLAGS": shlex.join(tool.compile_flags),
            "CMAKE_MODULE_LINKER_FLAGS": shlex.join(tool.link_flags),
            **_gpu_settings(tool),
            "Python_EXECUTABLE": python,
            "pybind11_DIR": pybind11.get_cmake_dir(),
        }
        folders = ["-S", str(self.layout.tree), "-B", str(self.layout.cmake), "-G", "Ninja"]
        cmake = str(find_tool("cmake", CMAKE_MINIMUM))
        return [cmake, *folders, *(f"-D{name}={value}" for name, value in settings.items())]

    def _stamp(self, command: Sequence[str]) -> dict[str, object]:
        compilers = [self.toolchain.identity, *([self.toolchain.gpu.identity] if self.toolchain.gpu else [])]
        return {"command": list(command), "compiler": compilers, "python": python_abi()}

    def stale_reason(self) -> str | None:
        """Say why the CMake folder has to be started anew; None when it can be used as it is."""
        return self._stale_reason(self._stamp(self._configure_command()))

    def _stale_reason(self, now: Mapping[str, object]) -> str | None:
        if not (self.layout.cmake / "build.ninja").is_file():
            return "first build"
        try:
            last = json.loads((self.layout.cmake / _STAMP).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return "the last configuration did not finish"
        names = {"command": "flags or folders changed", "compiler": "the compiler changed", "python": "Python changed"}
        return next((why for name, why in names.items() if last.get(name) != now[name]), None)

    def configure(self, reemit: Path | None) -> None:
        """Run CMake when the folder is new, or compiler, flags or folders are not those of the last time.

        `reemit` is the CMake file that repeats the emission when Ninja is run by hand.
        """
        command = self._configure_command()
        stamp = self._stamp(command)
        reason = self._stale_reason(stamp)
        if reason is None:
            return
        command.append(f"-DSTRATA_REEMIT={reemit or ''}")
        shutil.rmtree(self.layout.cmake, ignore_errors=True)
        self.layout.cmake.mkdir(parents=True)
        self.reporter.say(f"configuring ({reason}): {self.toolchain}")
        with (
            self._started(command) as (process, log),
            self.reporter.step(lambda: "configuring"),
        ):
            output = list(_lines(process, log))
        if process.returncode != 0:
            raise self._failure(output, command, process.returncode)
        write_atomically(self.layout.cmake / _STAMP, json.dumps(stamp, indent=1).encode())

    @contextmanager
    def _started(self, command: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
        self.layout.logs.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(command)}\n")
            with running(command, self.layout.cmake, clean_environment(self.environ)) as process:
                yield process, log

    def compile(self, jobs: int) -> tuple[str, ...]:
        """Build the module with `jobs` compilers at once. Return the sources that were compiled, in that order.

        Raises `BuildFailure` with the first real error.
        """
        ninja = str(find_tool("ninja"))
        command = [ninja, "-j", str(jobs), *(["-v"] if self.verbose else []), "_native"]
        compiled: list[str] = []
        failed: list[str] = []
        at = ""
        with (
            self._started(command) as (process, log),
            self.reporter.step(lambda: f"{at}compiling with {counted(jobs, 'job')}"),
        ):
            for line in _lines(process, log):
                if self.verbose:
                    self.reporter.say(line)
                if progress := _PROGRESS.match(line):
                    at = f"[{progress[1]}/{progress[2]}] "
                    if (source := _OBJECT.search(line)) and not failed:
                        compiled.append(source[1])
                        self.reporter.say(f"{at}{source[1]}")
                elif failed or line.startswith("FAILED: "):
                    failed.append(line)
        if process.returncode != 0:
            rerun = [ninja, "-C", str(self.layout.cmake), "-j", "1", "-v", "_native"]
            raise self._failure(failed, rerun, process.returncode)
        return tuple(compiled)

    def module(self) -> Path:
        """Return the compiled extension module."""
        return next(self.layout.cmake.glob("_native*.so"))

    def _failure(self, output: Sequence[str], rerun: Sequence[str], status: int) -> BuildFailure:
        if status < 0:
            output = [*output, f"error: {Path(rerun[0]).name} was ended by {signal.Signals(-status).name}"]
        line = with_origins(first_error(output), self.layout.tree, read_manifest(self.layout.tree))
        return BuildFailure(line, hint=hint_for(output), rerun=shlex.join(rerun), log=Path(shown(self.log)))
