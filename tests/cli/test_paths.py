"""What is no file is refused at once, whatever option names it: a pipe would be waited for, a device never ends."""

from __future__ import annotations

import errno
import json
import os
import signal

import numpy as np
import pytest

from strata_runtime.evaluation.record import load_record

PASSES = ["--prompt", "none", "--decode", "none", "--window", "1", "--rounds", "1"]
ARMS = ["--arm", "a:", "--arm", "b:pool.pin=off"]


@pytest.fixture(autouse=True)
def _no_waiting():
    def late(*_):
        raise AssertionError("waits for a pipe")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def run(strata, folder, tmp_path, monkeypatch):
    """Run a command in an empty folder; `MODEL` and `IDS` in it stand for a model and a list of token ids."""
    (tmp_path / "ids.json").write_text(json.dumps([[3, 1, 4]]))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    words = {"MODEL": folder, "IDS": tmp_path / "ids.json"}
    return lambda *args: strata(*(words.get(arg, arg) for arg in args))


READS = [
    ["generate", "--model", "PATH", "--prompt", "a"],
    ["generate", "--model", "MODEL", "--prompt-file", "PATH"],
    ["eval", "kl", "PATH", "PATH"],
    ["eval", "logpos", "--model", "MODEL", "--tokens", "PATH", "--out", "x.npz"],
    ["eval", "logpos", "--model", "MODEL", "--text", "PATH", "--out", "x.npz"],
    ["eval", "logpos", "--model", "MODEL", "--tokens", "IDS", "--at", "PATH", "--out", "x.npz"],
    ["profile", "--model", "MODEL", "--tokens", "PATH", "--out", "x.json"],
    ["ab", "--model", "MODEL", *ARMS, "--prompts", "PATH"],
    ["ab", "--model", "MODEL", *ARMS, "--prompts", "IDS", "--tokens", "PATH"],
]
WRITES = [
    ["eval", "logpos", "--model", "MODEL", "--tokens", "IDS", "--out", "PATH"],
    ["eval", "logpos", "--model", "MODEL", "--tokens", "IDS", "--eval-logpos", "PATH"],
    ["generate", "--model", "MODEL", "--prompt", "a", "--eval-logpos", "PATH"],
    ["profile", "--model", "MODEL", "--tokens", "IDS", "--out", "PATH"],
    ["bench", "--model", "MODEL", *PASSES, "--json", "PATH"],
    ["bench", "--model", "MODEL", *PASSES, "--plot", "PATH"],
    ["ab", "--model", "MODEL", *ARMS, "--prompts", "IDS", "--json", "PATH"],
    ["ab", "--model", "MODEL", *ARMS, "--prompts", "IDS", "--plot", "PATH"],
]


def shown(words):
    return " ".join(word for word in words if word not in PASSES + ARMS)


@pytest.mark.parametrize("words", READS + WRITES, ids=shown)
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_and_a_device_are_refused_before_any_work(strata, run, tmp_path, words, kind):
    path = tmp_path / "here" / ("x.png" if "--plot" in words else "x")
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    done = run(*(str(path) if word == "PATH" else word for word in words))
    assert done.exit_code == 2, done.output
    assert "not a file but a pipe or a device" in done.stderr
    assert done.stdout == ""
    assert strata.model.passes == []


@pytest.mark.parametrize("words", [words for words in WRITES if "--json" not in words], ids=shown)
def test_no_file_gets_the_name_of_standard_output(strata, run, tmp_path, words):
    done = run(*("-" if word == "PATH" else word for word in words))
    assert done.exit_code == 2, done.output
    assert "standard output" in done.stderr
    assert strata.model.passes == []
    assert list((tmp_path / "here").iterdir()) == []


@pytest.mark.parametrize("words", [words for words in WRITES if "--out" in words], ids=shown)
def test_an_empty_path_is_refused_before_any_work(strata, run, tmp_path, words):
    done = run(*("" if word == "PATH" else word for word in words))
    assert done.exit_code == 2
    assert done.stderr == "Error: --out is empty: name a file to write\n"
    assert list((tmp_path / "here").iterdir()) == []


def test_a_result_is_there_as_a_whole_or_not_at_all(strata, run, tmp_path, monkeypatch):
    """What was there stays when writing fails, and a link goes on leading to the result."""
    here = tmp_path / "here"
    real, link = tmp_path / "record.npz", here / "link.npz"
    real.write_bytes(b"once")
    real.chmod(0o600)
    link.symlink_to(real)
    words = ["eval", "logpos", "--model", "MODEL", "--tokens", "IDS", "--out", str(link)]

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(np, "savez", full)
        done = run(*words)
    assert done.exit_code == 2, done.output
    assert f"{link}: cannot be written: No space left on device" in done.stderr
    assert real.read_bytes() == b"once"
    strata.model.closed = False
    assert run(*words).exit_code == 0
    assert load_record(real).positions == 3
    assert link.is_symlink()
    assert real.stat().st_mode & 0o777 == 0o600
    assert sorted(path.name for path in (*tmp_path.iterdir(), *here.iterdir())) == [
        "here", "ids.json", "link.npz", "model", "record.npz",
    ]  # fmt: skip
