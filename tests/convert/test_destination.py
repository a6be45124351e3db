"""The file is complete under its name, or not there: whatever happens on the way."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from strata_runtime.errors import UserError
from support.checkpoints import make_config, write_checkpoint

from .conftest import Convert, LoadModel

SLOW = """
import sys, time
from pathlib import Path
from strata_runtime.convert.choice import choose_formats
from strata_runtime.convert.run import convert
from support.reference_provider import ReferenceProvider

def wait(done, total):
    Path(sys.argv[3]).touch()
    time.sleep(60)

provider = ReferenceProvider()
formats = choose_formats(provider.formats, "f32")
convert(sys.argv[1], sys.argv[2], formats, provider, tokenizer=False, progress=wait)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "model", make_config())


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out" / "model.gguf"


@pytest.fixture(autouse=True)
def out_folder(out: Path) -> Path:
    out.parent.mkdir()
    return out.parent


def raising(problem: BaseException) -> Callable[[int, int], None]:
    def progress(done: int, total: int) -> None:
        raise problem

    return progress


def test_a_file_that_is_there_is_kept_unless_it_may_be_replaced(folder: Path, out: Path, to_gguf: Convert) -> None:
    out.write_bytes(b"GGUF, once")
    with pytest.raises(UserError, match=r"model.gguf: exists already; --force replaces it"):
        to_gguf(folder, out)
    assert out.read_bytes() == b"GGUF, once"
    to_gguf(folder, out, force=True)
    assert out.stat().st_size > 10_000


def test_only_gguf_files_are_replaced(folder: Path, to_gguf: Convert) -> None:
    weights = (folder / "model.safetensors").read_bytes()
    with pytest.raises(UserError, match="is no GGUF file, and only such are replaced"):
        to_gguf(folder, folder / "model.safetensors", force=True)
    assert (folder / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (".", "a folder; name the file to write"),
        ("absent/model.gguf", "model.gguf: there is no folder .*absent"),
        ("x" * 300, "no file can have this name: File name too long"),
        ("x" * 250, "no file can have this name: File name too long"),
        ("a\0b", "a path cannot hold a NUL character"),
    ],
)
def test_a_place_that_cannot_be_written(
    folder: Path, out_folder: Path, to_gguf: Convert, name: str, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        to_gguf(folder, out_folder / name)
    assert list(out_folder.iterdir()) == []


@pytest.mark.parametrize("name", ["model.gguf", "model.gguf.partial"])
def test_a_pipe_is_not_waited_for(folder: Path, out: Path, to_gguf: Convert, name: str) -> None:
    os.mkfifo(out.with_name(name))
    with pytest.raises(UserError, match=f"{name}: not a file but a pipe or a device"):
        to_gguf(folder, out, force=True)
    assert [path.name for path in out.parent.iterdir()] == [name]


def test_a_file_does_not_become_named_like_standard_output(
    folder: Path, out_folder: Path, to_gguf: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(out_folder)
    with pytest.raises(UserError, match="-: standard output does not take this"):
        to_gguf(folder, Path("-"))


def test_a_folder_without_the_right_to_write(folder: Path, to_gguf: Convert) -> None:
    # Not even root may make files there.
    with pytest.raises(UserError, match=r"/proc/model.gguf: cannot be written: .*; nothing was left there"):
        to_gguf(folder, Path("/proc/model.gguf"))


def test_the_space_is_looked_at_first(
    folder: Path, out: Path, to_gguf: Convert, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(out.parent)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=100_000))
    with pytest.raises(UserError, match=r"out: has 97.7 KiB free, but the file takes 581.2 KiB"):
        to_gguf(folder, out)
    assert list(out.parent.iterdir()) == []


def test_a_disk_that_is_full_at_the_start(folder: Path, out: Path, to_gguf: Convert) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))
    try:
        with pytest.raises(UserError, match=r"model.gguf: cannot be written: File too large; nothing was left there"):
            to_gguf(folder, out)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert list(out.parent.iterdir()) == []


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_what_was_begun_is_removed_and_what_was_there_is_kept(
    folder: Path, out: Path, to_gguf: Convert, problem: BaseException
) -> None:
    out.write_bytes(b"GGUF, once")
    with pytest.raises((UserError, KeyboardInterrupt)) as raised:
        to_gguf(folder, out, force=True, progress=raising(problem))
    if isinstance(problem, OSError):
        assert "cannot be written: No space left on device; nothing was left there" in str(raised.value)
    assert [path.name for path in out.parent.iterdir()] == ["model.gguf"]
    assert out.read_bytes() == b"GGUF, once"


def test_a_killed_process_leaves_nothing_under_the_name_and_the_next_one_goes_on(
    folder: Path, out: Path, tmp_path: Path, to_gguf: Convert, load: LoadModel
) -> None:
    mark = tmp_path / "mark"
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    process = subprocess.Popen([sys.executable, "-c", SLOW, folder, out, mark], env=environment)
    while not mark.exists() and process.poll() is None:
        time.sleep(0.01)
    assert process.poll() is None
    with pytest.raises(UserError, match=r"model.gguf.partial: another process is writing it"):
        to_gguf(folder, out)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert [path.name for path in out.parent.iterdir()] == ["model.gguf.partial"]
    to_gguf(folder, out)
    assert [path.name for path in out.parent.iterdir()] == ["model.gguf"]
    assert load(out).info.layers == 3


def test_a_lock_of_somebody_else_is_respected(folder: Path, out: Path, to_gguf: Convert) -> None:
    with (out.parent / "model.gguf.partial").open("ab") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="another process is writing it"):
            to_gguf(folder, out)
    assert (out.parent / "model.gguf.partial").exists()


def test_progress_counts_to_the_end(folder: Path, out: Path, to_gguf: Convert) -> None:
    seen: list[tuple[int, int]] = []
    to_gguf(folder, out, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (1, 1)
    assert all(done < total for done, total in seen[:-1])
    assert len(seen) > 10
