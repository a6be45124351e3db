"""Runs of the `strata` command: in this process, or in one of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from strata_runtime.cli.main import group
from support.fake_command import answering
from support.fake_engine import patch_command_line
from support.text_models import write_folder

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ROOT / "tests" / "support" / "fake_command.py"


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "model")


@pytest.fixture
def strata(monkeypatch):
    """Run a command in this process over doubles that answer `héllo ` for ever."""
    model = answering("héllo ")
    patch_command_line(monkeypatch, model)

    def run(*args, **options):
        return CliRunner().invoke(group, [str(arg) for arg in args], **options)

    run.model = model
    return run


def environment(**more):
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    paths = [str(ROOT / name) for name in ("generator", "runtime", "tests")]
    return {**clean, "PYTHONPATH": os.pathsep.join(paths), **more}


@pytest.fixture
def driver():
    """A script that is the command over doubles, for a process of its own."""
    return DRIVER


@pytest.fixture
def clean_environment():
    return environment()


@pytest.fixture
def start(tmp_path):
    """Start a command in a process of its own, and wait for its first pass. It is killed at the end of the test."""
    started = []
    mark = tmp_path / "mark"

    def run(*args, **variables):
        process = subprocess.Popen(
            [sys.executable, str(DRIVER), *map(str, args)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(FAKE_MARK=str(mark), **variables),
        )
        started.append(process)
        while not mark.exists() and process.poll() is None:
            time.sleep(0.01)
        return process

    yield run
    for process in started:
        process.kill()
        process.communicate()
