"""A disk that is full: one clear error or one line, nothing half-written, and all is well once there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.wheel.archive import Wheel, write_wheel
from support.builders import Starter, finish
from support.small_project import SmallProject


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with 48 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def start(small: SmallProject, tmp_path: Path) -> Starter:
    return Starter(small, tmp_path / "home", tmp_path / "bin")


def test_a_build_on_a_full_disk_is_one_clear_error_and_works_once_there_is_room(
    start: Starter, full_disk: Path
) -> None:
    code, _, err = finish(start(full_disk / "out"))
    assert code in (1, 2)
    assert "No space left on device" in err or "the disk is full" in err
    assert "Traceback" not in err
    assert not list(full_disk.glob("out/*/*/package/*"))
    subprocess.run(["mount", "-o", "remount,size=64m", str(full_disk)], check=True)
    assert finish(start(full_disk / "out"))[0] == 0


def test_a_cache_on_a_full_disk_costs_the_cache_alone(start: Starter, full_disk: Path, tmp_path: Path) -> None:
    start.home = full_disk
    (full_disk / "filler").write_bytes(bytes(36 << 10))
    code, out, err = finish(start(tmp_path / "out"))
    assert code == 0, err
    assert '"how": "built"' in out
    assert err.count("artifact cache: ") == 1
    assert not list(full_disk.rglob("_native*"))


def test_a_wheel_on_a_full_disk_is_one_clear_error_and_leaves_nothing(full_disk: Path) -> None:
    wheel = Wheel("strata-x", "1.0", "py3-none-any", {}, {})
    with pytest.raises(GeneratorError, match="cannot write the wheel: No space left on device"):
        write_wheel(wheel, bytes(1 << 20), full_disk)
    assert list(full_disk.iterdir()) == []
