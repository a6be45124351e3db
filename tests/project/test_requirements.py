"""The pinned requirements: exact, complete for what the project declares, and free of machine settings."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PIN = re.compile(r"^([a-z0-9][a-z0-9.-]*)==([0-9][0-9a-z.]*)$")


def entries(path: Path) -> list[str]:
    """Return the lines that are neither empty nor comments."""
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def pins(path: Path) -> dict[str, str]:
    """Return name and version of every pinned requirement, included files left out."""
    found = {}
    for line in entries(path):
        if match := PIN.match(line):
            found[canonicalize_name(match.group(1))] = match.group(2)
    return found


@pytest.fixture
def project(root: Path) -> dict:
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["run.txt", "dev.txt"])
def test_every_line_is_an_exact_pin_and_nothing_else(name: str, root: Path) -> None:
    lines = entries(root / "requirements" / name)
    assert [line for line in lines if not PIN.match(line) and line != "-r run.txt"] == []
    assert len(lines) == len(set(lines))


def test_development_adds_to_the_run_time_requirements(root: Path) -> None:
    assert entries(root / "requirements" / "dev.txt")[0] == "-r run.txt"
    assert pins(root / "requirements" / "dev.txt").keys().isdisjoint(pins(root / "requirements" / "run.txt"))


def test_pins_satisfy_what_the_project_declares(root: Path, project: dict) -> None:
    pinned = pins(root / "requirements" / "run.txt")
    extras = project["project"]["optional-dependencies"]
    texts = project["project"]["dependencies"] + project["build-system"]["requires"] + extras["serve"]
    declared = [Requirement(text) for text in texts]
    wrong = [str(each) for each in declared if pinned.get(canonicalize_name(each.name), "0") not in each.specifier]
    assert wrong == []


def test_each_dependency_goes_into_a_wheel(project: dict) -> None:
    made = project["tool"]["strata"].values()
    declared = {Requirement(text).name for text in project["project"]["dependencies"]}
    assert {name for table in made for name in table["dependencies"]} == declared
    assert {name for table in made for name in table["scripts"]} == project["project"]["scripts"].keys()
