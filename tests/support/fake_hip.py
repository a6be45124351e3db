"""A HIP runtime that this machine need not have: processes that are started with its environment load it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

NAMES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so")


def compile_fake_hip(folder: Path, name: str = NAMES[0]) -> Path:
    """Compile the library into `folder`; return its path."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    source, library = Path(__file__).with_suffix(".c"), folder / name
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", source, "-o", library], check=True)
    return library


def without_hip(folder: Path) -> dict[str, str]:
    """The environment of a process that finds no HIP runtime, whatever this machine has."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in NAMES:
        (folder / name).write_text("not a library")
    return {**os.environ, "LD_LIBRARY_PATH": str(folder)}


def with_hip(library: Path, **settings: str) -> dict[str, str]:
    """The environment of a process that finds the library; `settings` are those of `fake_hip.c`."""
    return {**os.environ, "LD_LIBRARY_PATH": str(library.parent), **settings}
