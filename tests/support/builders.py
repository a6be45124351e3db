"""Builders of the small project as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from strata_gen.paths import project_root
from support.small_project import SmallProject, environment, make_compiler

BUILDER = project_root() / "tests/support/builder.py"
SOURCES = 3


class Starter:
    """Starts builders of the small project with a counting compiler."""

    def __init__(self, small: SmallProject, home: Path, bin_folder: Path) -> None:
        self.small, self.home, self.bin = small, home, bin_folder

    def __call__(
        self, out: Path, *, before: str = "", preexec_fn: Callable[[], None] | None = None
    ) -> subprocess.Popen[str]:
        self.compiler = make_compiler(self.bin, before=before)
        environ = environment(self.home, CXX=str(self.compiler))
        environ["PYTHONPATH"] = f"{project_root() / 'tests'}{os.pathsep}{environ['PYTHONPATH']}"
        return subprocess.Popen(
            [sys.executable, str(BUILDER), str(self.small.root), str(out)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=preexec_fn,  # noqa: PLW1509
        )


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)
