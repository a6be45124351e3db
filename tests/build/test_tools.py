"""CMake and Ninja: from PATH when they are new enough, else from their Python packages."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.tools import clean_environment, find_tool


def command(folder: Path, name: str, version: str) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{name} version {version}'\n")
    path.chmod(0o755)
    return path


def test_the_command_on_path_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = command(tmp_path, "cmake", "3.30.1")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert find_tool("cmake", (3, 25)) == own


@pytest.mark.parametrize("name", ["cmake", "ninja"])
def test_without_a_command_the_python_package_serves(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_tool(name)
    assert found.is_file() and found.name == name
    assert found != Path(shutil.which(name) or "")


def test_a_command_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = command(tmp_path, "cmake", "3.16.3")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert find_tool("cmake", (3, 25)) != old


def test_a_tool_that_is_nowhere_names_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GeneratorError) as caught:
        find_tool("no_such_tool", (3, 25))
    assert caught.value.mend == "pip install 'no_such_tool>=3.25'"


def test_what_would_change_code_behind_the_key_is_not_passed_on() -> None:
    hostile = ["CMAKE_TOOLCHAIN_FILE", "CMAKE_BUILD_TYPE", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CXXFLAGS"]
    kept = clean_environment({**dict.fromkeys(hostile, "x"), "HOME": "/h", "LD_LIBRARY_PATH": "/l"})
    assert not kept.keys() & set(hostile)
    assert (kept["HOME"], kept["LD_LIBRARY_PATH"], kept["LC_ALL"]) == ("/h", "/l", "C")
