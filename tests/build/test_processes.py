"""Several builders at once, and builders that die: real processes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_gen.paths import project_root
from support.builders import SOURCES, Starter, finish, wait_for
from support.small_project import SmallProject, compiles

@pytest.fixture
def start(small: SmallProject, tmp_path: Path) -> Starter:
    return Starter(small, tmp_path / "home", tmp_path / "bin")


def test_four_builders_in_one_folder_compile_once(start: Starter, tmp_path: Path) -> None:
    results = [finish(process) for process in [start(tmp_path / "out", before="sleep 0.3") for _ in range(4)]]
    assert [code for code, _, _ in results] == [0, 0, 0, 0], results
    assert sorted(json.loads(out)["how"] for _, out, _ in results) == ["built", "current", "current", "current"]
    assert compiles(start.compiler) == SOURCES
    assert sum("waiting for it" in err for _, _, err in results) == 3


def test_a_killed_builder_takes_its_compilers_along(start: Starter, tmp_path: Path) -> None:
    victim = start(tmp_path / "out", before=f'echo $$ >> "{tmp_path}/pids"; sleep 30')
    wait_for(lambda: (tmp_path / "pids").exists() and (tmp_path / "pids").read_text().strip() != "")
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]

    def alive(pid: int) -> bool:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return False
        return state != "Z"

    wait_for(lambda: not any(alive(pid) for pid in pids))


def test_a_waiter_goes_on_when_the_builder_dies(start: Starter, tmp_path: Path) -> None:
    victim = start(tmp_path / "out1", before="sleep 30")
    wait_for(lambda: compiles(start.compiler) > 0)
    waiter = start(tmp_path / "out2")
    time.sleep(1.5)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    code, stdout, err = finish(waiter)
    assert code == 0, err
    assert json.loads(stdout)["how"] == "built"


def test_an_interrupted_builder_leaves_a_folder_that_builds(start: Starter, tmp_path: Path) -> None:
    victim = start(tmp_path / "out", before="sleep 30")
    wait_for(lambda: compiles(start.compiler) > 0)
    victim.send_signal(signal.SIGTERM)
    victim.communicate()
    assert finish(start(tmp_path / "out"))[0] == 0


@pytest.mark.parametrize("limit", [200, 12_000], ids=["no room for the tree", "no room for the build"])
def test_a_limit_on_file_sizes_is_one_clear_error(start: Starter, tmp_path: Path, limit: int) -> None:
    out = tmp_path / "out"
    process = start(out, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    code, _, err = finish(process)
    assert code in (1, 2), err
    assert "Traceback" not in err
    assert "File too large" in err or "limit on file sizes" in err
    assert not list((out / "cpu/x86-64-v2").glob("package/*/manifest.json"))
    assert finish(start(out))[0] == 0
