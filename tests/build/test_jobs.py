"""Jobs: by the cores and the memory that are really there, in a container too."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_gen.jobs import GIB, available_cores, available_memory, default_jobs


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A root folder with 64 GiB available and no cgroup limits."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal: {128 * GIB // 1024} kB\nMemAvailable: {64 * GIB // 1024} kB\n")
    (tmp_path / "proc/self/cgroup").write_text("0::/box/inner\n")
    (tmp_path / "sys/fs/cgroup/box/inner").mkdir(parents=True)
    return tmp_path


def limit(machine: Path, name: str, value: str, *, at: str = "") -> None:
    (machine / "sys/fs/cgroup" / at / name).write_text(value + "\n")


def test_without_limits_it_is_the_available_memory(machine: Path) -> None:
    assert available_memory(machine) == 64 * GIB


@pytest.mark.parametrize("at", ["", "box", "box/inner"])
def test_the_tightest_cgroup_above_us_counts(machine: Path, at: str) -> None:
    limit(machine, "memory.max", str(3 * GIB), at=at)
    limit(machine, "memory.current", str(GIB), at=at)
    assert available_memory(machine) == 2 * GIB


def test_a_limit_of_max_is_none(machine: Path) -> None:
    limit(machine, "memory.max", "max", at="box")
    assert available_memory(machine) == 64 * GIB


def test_the_older_cgroup_counts_too(machine: Path) -> None:
    (machine / "sys/fs/cgroup/memory").mkdir()
    limit(machine, "memory.limit_in_bytes", str(GIB), at="memory")
    assert available_memory(machine) == GIB


def test_little_memory_means_few_jobs_but_always_one(machine: Path) -> None:
    limit(machine, "memory.max", str(GIB // 4))
    assert default_jobs(machine) == 1


def test_a_core_quota_counts(machine: Path) -> None:
    limit(machine, "cpu.max", "100000 100000", at="box")
    assert available_cores(machine) == 1


def test_a_machine_that_tells_nothing_still_builds(tmp_path: Path) -> None:
    assert available_memory(tmp_path) is None
    assert default_jobs(tmp_path) >= 1
