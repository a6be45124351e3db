from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace

import pytest

import strata_runtime.discovery as discovery
from strata_gen.progress import Reporter
from support.small_project import Builds, SmallProject, make_small_project


@pytest.fixture
def said() -> io.StringIO:
    """What the reporter of the test has said."""
    return io.StringIO()


@pytest.fixture
def reporter(said: io.StringIO) -> Reporter:
    return Reporter(said)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> SmallProject:
    """A small project that the tests of a module share; who edits it copies it first."""
    return make_small_project(tmp_path_factory.mktemp("shared") / "project")


@pytest.fixture(scope="module")
def package(small: SmallProject) -> Path:
    """The package of the small project, built once; its cache lies in `home` beside it."""
    return Builds(small, small.root / "home", Reporter(io.StringIO()))().path


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> SimpleNamespace:
    """No kernels package is in sight but those under `built`, a build folder, and those that `points` names."""
    found = SimpleNamespace(built=tmp_path / "here" / "build", points=[])
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(discovery, "checkout", lambda: None)
    monkeypatch.setattr(discovery, "entry_points", lambda group: found.points)
    return found
