"""The set-up script behind `make`: what it needs, when it installs, and how it mends a half-made environment.

Interpreters are stand-ins that write down how they were called; nothing is downloaded.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

INTERPRETER = """#!/bin/sh
case "$*" in
  "-m venv .venv")
    echo venv >>calls
    mkdir -p .venv/bin
    cp "$0" .venv/bin/python
    echo "VIRTUAL_ENV=$(pwd -P)/.venv" >.venv/bin/activate ;;
  "-m pip --version") [ ! -e pip-is-broken ] ;;
  *"-m pip"*install*) echo "install ${*##* }" >>calls; [ ! -e installing-fails ] ;;
  *) exit 0 ;;
esac
"""


class Project:
    """A folder with the set-up script, and the interpreter it is told to use."""

    def __init__(self, folder: Path, root: Path) -> None:
        self.folder = folder
        shutil.copytree(root / "requirements", folder / "requirements")
        shutil.copy(root / "pyproject.toml", folder)
        self.python = self.script("python-stand-in", INTERPRETER)

    def script(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    def set_up(self, level: str = "run", **environment: str) -> subprocess.CompletedProcess[str]:
        settings = {**os.environ, "PYTHON": str(self.python), "CXX": "sh", **environment}
        command = ["bash", "requirements/setup.sh", level]
        return subprocess.run(command, cwd=self.folder, env=settings, capture_output=True, text=True)

    def calls(self) -> list[str]:
        """Return and forget what the interpreter was called for."""
        log = self.folder / "calls"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return lines


@pytest.fixture
def project(tmp_path: Path, root: Path) -> Project:
    folder = tmp_path / "a folder with spaces"
    folder.mkdir()
    return Project(folder, root)


def test_first_run_makes_the_environment_and_installs(project: Project) -> None:
    assert project.set_up().returncode == 0
    assert project.calls() == ["venv", "install requirements/run.txt", "install ."]


def test_second_run_does_nothing(project: Project) -> None:
    project.set_up("dev")
    project.calls()
    assert project.set_up("dev").stderr == ""
    assert project.calls() == []


def test_development_environment_serves_the_demo_too(project: Project) -> None:
    project.set_up("dev")
    project.calls()
    project.set_up("run")
    assert project.calls() == []


@pytest.mark.parametrize("name", ["requirements/run.txt", "pyproject.toml"])
def test_changed_requirements_are_installed(project: Project, name: str) -> None:
    project.set_up("dev")
    project.calls()
    with (project.folder / name).open("a") as stream:
        stream.write("# changed\n")
    project.set_up("dev")
    assert project.calls() == ["install requirements/dev.txt", "install ."]


def test_interrupted_installation_is_taken_up_again(project: Project) -> None:
    (project.folder / "installing-fails").touch()
    assert project.set_up().returncode != 0
    (project.folder / "installing-fails").unlink()
    project.calls()
    assert project.set_up().returncode == 0
    assert project.calls() == ["install requirements/run.txt", "install ."]


def test_half_made_environment_is_made_again(project: Project) -> None:
    (project.folder / ".venv" / "bin").mkdir(parents=True)
    done = project.set_up()
    assert done.returncode == 0
    assert "remaking .venv" in done.stderr
    assert project.calls()[0] == "venv"


def test_moved_environment_is_made_again(project: Project) -> None:
    project.set_up()
    project.calls()
    moved = project.folder.with_name("moved")
    project.folder.rename(moved)
    project.folder = moved
    project.python = moved / "python-stand-in"
    assert project.set_up().returncode == 0
    assert project.calls()[0] == "venv"


def one_line_of(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    return done.stderr


def test_missing_python_is_one_line(project: Project) -> None:
    assert "no 'python9' on PATH" in one_line_of(project.set_up(PYTHON="python9"))


def test_old_python_is_one_line(project: Project) -> None:
    old = project.script("old", '#!/bin/sh\ncase "$2" in *print*) echo 3.9 ;; *) exit 1 ;; esac\n')
    line = one_line_of(project.set_up(PYTHON=str(old)))
    assert "is Python 3.9, but 3.11 or newer is needed" in line


def test_missing_venv_module_is_one_line(project: Project) -> None:
    bare = project.script("bare", '#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; *) exit 0 ;; esac\n')
    assert "apt-get install python3-venv" in one_line_of(project.set_up(PYTHON=str(bare)))


def test_missing_python_headers_are_one_line(project: Project) -> None:
    bare = project.script("bare", '#!/bin/sh\ncase "$2" in *Python.h*) exit 1 ;; *) exit 0 ;; esac\n')
    assert "apt-get install python3-dev" in one_line_of(project.set_up(PYTHON=str(bare)))


def test_missing_compiler_is_one_line(project: Project) -> None:
    assert "looked for no-such-compiler" in one_line_of(project.set_up(CXX="no-such-compiler"))
