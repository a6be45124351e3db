"""Fixtures of the tests about the project as a whole."""

from __future__ import annotations

import os
import subprocess
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
