from __future__ import annotations

import io
from pathlib import Path

import pytest
from strata_gen.build import BuildRequest, BuildResult, build
from strata_gen.progress import Reporter
from support.small_project import SmallProject, environment, make_small_project


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


class Builds:
    """Builds of the small project in this process, with a home and cache of the test's own."""

    def __init__(self, small: SmallProject, home: Path, reporter: Reporter) -> None:
        self.small, self.home, self.reporter = small, home, reporter

    def __call__(
        self, *, set_values: dict[str, str] | None = None, out: Path | None = None, cache: bool = True, **extra: str
    ) -> BuildResult:
        tree = self.small.tree(set_values)
        request = BuildRequest(tree, self.small.layout(out), jobs=2, use_cache=cache)
        return build(request, self.reporter, environment(self.home, **extra))


@pytest.fixture
def run_build(small: SmallProject, tmp_path: Path, reporter: Reporter) -> Builds:
    return Builds(small, tmp_path / "home", reporter)
