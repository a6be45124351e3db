"""A driver of CUDA that this machine need not have: processes that are started with its environment load it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_suffix(".c")


def compile_fake_cuda(folder: Path) -> Path:
    """Compile the driver into `folder`; return that."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    folder.mkdir(parents=True, exist_ok=True)
    library = folder / "libcuda.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", SOURCE, "-o", library], check=True)
    return folder


def with_driver(folder: Path, **settings: str) -> dict[str, str]:
    """The environment of a process that finds the driver; `settings` are those of `fake_cuda.c`."""
    return {**os.environ, "LD_LIBRARY_PATH": str(folder), **settings}
