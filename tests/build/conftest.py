from __future__ import annotations

import io
from pathlib import Path

import pytest

from strata_gen.progress import Reporter
from support.small_project import Builds, SmallProject, make_small_project


@pytest.fixture
def small(tmp_path: Path) -> SmallProject:
    return make_small_project(tmp_path / "project")


@pytest.fixture
def said() -> io.StringIO:
    """What the reporter of the test has said."""
    return io.StringIO()


@pytest.fixture
def reporter(said: io.StringIO) -> Reporter:
    return Reporter(said)


@pytest.fixture
def run_build(small: SmallProject, tmp_path: Path, reporter: Reporter) -> Builds:
    return Builds(small, tmp_path / "home", reporter)
