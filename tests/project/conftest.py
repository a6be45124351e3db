"""Fixtures of the tests about the project as a whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def tracked(root: Path) -> tuple[Path, ...]:
    """Every file under version control."""
    if not (root / ".git").exists():
        pytest.skip("not a checkout: what is tracked is unknown")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, check=True).stdout
    paths = (root / os.fsdecode(name) for name in listing.split(b"\0") if name)
    return tuple(path for path in paths if path.is_file())


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled package of this machine's CPU."""
    out = tmp_path_factory.mktemp("build")
    words = ["build", "--target", "cpu", "native", "--out", str(out)]
    done = subprocess.run([Path(sys.executable).with_name("strata-gen"), *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return next(out.glob("cpu/native/package/strata_kernels_*"))
