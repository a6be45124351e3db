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
from support.small_project import SmallProject, compiles, environment, make_compiler

BUILDER = project_root() / "tests/support/builder.py"
SOURCES = 3


class Starter:
    """Starts builders of the small project with a counting compiler."""

    def __init__(self, small: SmallProject, home: Path, bin_folder: Path) -> None:
        self.small, self.home, self.bin = small, home, bin_folder

    def __call__(
        self, out: Path, *, before: str = "", preexec_fn: Callable[[], None] | None = None
    ) -> subprocess.Popen[str]:
        self.compiler = make_compiler(self.bin, before=before)
        environ = environment(self.home, CXX=str(self.compiler))
        environ["PYTHONPATH"] = f"{project_root() / 'tests'}{os.pathsep}{environ['PYTHONPATH']}"
        return subprocess.Popen(
            [sys.executable, str(BUILDER), str(self.small.root), str(out)],
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=preexec_fn,  # noqa: PLW1509
        )


@pytest.fixture
def start(small: SmallProject, tmp_path: Path) -> Starter:
    return Starter(small, tmp_path / "home", tmp_path / "bin")


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("places", [1, 4], ids=["one folder", "four folders"])
def test_four_builders_of_one_key_compile_once(start: Starter, tmp_path: Path, places: int) -> None:
    outs = [tmp_path / f"out{number % places}" for number in range(4)]
    processes = [start(out, before="sleep 0.3") for out in outs]
    results = [finish(process) for process in processes]
    assert [code for code, _, _ in results] == [0, 0, 0, 0], results
    done = [json.loads(out)["how"] for _, out, _ in results]
    assert done.count("built") == 1
    assert set(done) - {"built"} == {"current"} if places == 1 else {"cached"}
    assert compiles(start.compiler) == SOURCES
    assert sum("waiting for it" in err for _, _, err in results) == 3


def test_a_killed_builder_blocks_nobody(start: Starter, tmp_path: Path) -> None:
    out = tmp_path / "out"
    victim = start(out, before="sleep 30")
    wait_for(lambda: compiles(start.compiler) > 0)
    victim.send_signal(signal.SIGKILL)
    victim.communicate()
    started = time.monotonic()
    code, stdout, err = finish(start(out))
    assert code == 0, err
    assert json.loads(stdout)["how"] == "built"
    assert time.monotonic() - started < 25


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
