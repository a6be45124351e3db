"""The kernels package with every x86-64 level, built once and kept in the build folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from strata_gen.paths import project_root
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider

TEST_PACKAGE = "KERNELS_TEST_PACKAGE"
"""Variable that names a package with every level, for tests of a checkout that has not built one."""

OUT = project_root() / "build" / "tests"
_FOLDER = OUT / "cpu" / "x86-64-v2"


def build_tree() -> Path:
    """Build the package and return the emitted tree that it is built from.

    It is compiled here, never taken from the artifact cache: some tests look at the objects.
    """
    if not any(_FOLDER.glob("cmake/**/*.o")):
        shutil.rmtree(_FOLDER / "package", ignore_errors=True)
    program = "from strata_gen.cli.main import main; main()"
    command = [sys.executable, "-c", program, "build", "--target", "cpu", "x86-64-v2", "--out", str(OUT), "--no-cache"]
    built = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert built.returncode == 0, built.stderr
    return _FOLDER / "tree"


def open_package() -> Provider:
    """Return the built package."""
    return find_provider({PATH_VARIABLE: str(_FOLDER / "package" / "strata_kernels_cpu_x86_64_v2")})
