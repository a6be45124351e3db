"""How many compilers may run at once: by cores, and by the memory that is really there."""

from __future__ import annotations

import os
from pathlib import Path

GIB = 1 << 30
# One translation unit with pybind11 and vector intrinsics at -O3 takes 0.4 to 0.8 GiB.
BYTES_PER_JOB = GIB


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").split()[0]
    except (OSError, IndexError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None


def _cgroup_folders(root: Path) -> list[Path]:
    """Return this process's cgroup (v2) and its ancestors, or the one of v1, as far as they are visible."""
    v2 = root / "sys/fs/cgroup"
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.split("::", 1)[1].lstrip("/") for line in lines if line.startswith("0::")]
    below = [v2 / name for name in names if ".." not in name]
    return [folder for start in (*below, v2) for folder in (start, *start.parents) if folder.is_relative_to(v2)]


def available_memory(root: Path = Path("/")) -> int | None:
    """Return the bytes that new processes can use: free memory, or less under a cgroup's limit; None if unknown."""
    limits = []
    try:
        meminfo = (root / "proc/meminfo").read_text(encoding="ascii")
        limits += [int(line.split()[1]) * 1024 for line in meminfo.splitlines() if line.startswith("MemAvailable:")]
    except (OSError, ValueError, IndexError):
        pass
    pairs = [(folder / "memory.max", folder / "memory.current") for folder in _cgroup_folders(root)]
    v1 = root / "sys/fs/cgroup/memory"
    pairs.append((v1 / "memory.limit_in_bytes", v1 / "memory.usage_in_bytes"))
    for limit_file, used_file in pairs:
        if (limit := _number(limit_file)) is not None:
            limits.append(max(0, limit - (_number(used_file) or 0)))
    return min(limits, default=None)


def available_cores(root: Path = Path("/")) -> int:
    """Return the cores that this process may use, by its affinity mask and its cgroup's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for folder in _cgroup_folders(root):
        try:
            quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        except (OSError, ValueError):
            continue
        if quota.isdigit() and period.isdigit():
            cores = min(cores, max(1, int(quota) // int(period)))
    return cores


def default_jobs(root: Path = Path("/")) -> int:
    """Return min(cores, memory / `BYTES_PER_JOB`), at least 1."""
    memory = available_memory(root)
    by_memory = memory // BYTES_PER_JOB if memory is not None else available_cores(root)
    return max(1, min(available_cores(root), by_memory))
