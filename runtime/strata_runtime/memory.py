"""Memory that this process can still get, and memory of its own for weights."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HUGE_PAGE = 2 << 20
_ALIGNMENT = 64  # one cache line, and one vector of the widest kernels


def _numbers(file: Path) -> dict[str, int]:
    """Read a table of `name number` or `name: number kB`; empty when there is no such file."""
    try:
        lines = file.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    rows = (line.replace(":", " ").split() for line in lines)
    return {row[0]: int(row[1]) * (1024 if row[-1] == "kB" else 1) for row in rows if len(row) > 1 and row[1].isdigit()}


def _number(file: Path) -> int | None:
    try:
        text = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None


def _groups(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield (mount, group) of the control groups that may limit this process's memory."""
    try:
        lines = (root / "proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        mount = root / "sys/fs/cgroup"
        if not controllers:
            yield mount, Path(path.lstrip("/"))
        elif "memory" in controllers.split(","):
            yield mount / "memory", Path(path.lstrip("/"))


def _headroom(folder: Path) -> int | None:
    """Return what a control group leaves: its limit less what is used and not cached files; None without a limit."""
    limit, used = _number(folder / "memory.max"), _number(folder / "memory.current")
    if limit is None or used is None:
        limit, used = _number(folder / "memory.limit_in_bytes"), _number(folder / "memory.usage_in_bytes")
    if limit is None or used is None:
        return None
    table = _numbers(folder / "memory.stat")
    cached = sum(table.get(f"total_{name}", table.get(name, 0)) for name in ("active_file", "inactive_file"))
    return max(0, limit - max(0, used - cached))


_HELD = (
    *("AnonPages", "Shmem", "Hugetlb", "SUnreclaim", "KernelStack", "PageTables", "SecPageTables", "Percpu"),
    "Balloon",  # what the hypervisor has taken back
)
_UNTOLD_SHARE = 16  # of all memory: what drivers and the kernel hold and no line of the table tells


def _left_on_machine(root: Path) -> int | None:
    """Return what the machine has left, None when it does not say.

    MemAvailable is what is free now, and cached files. A virtual machine may get its memory from the hypervisor only as
    it is touched: what it has not got yet is neither free nor anybody's, and MemAvailable is a small part of what it
    would give. There, all memory less what processes and the kernel hold is the larger number, and the right one;
    anywhere else it is the smaller one, for the part that is taken off for what no line tells.
    """
    table = _numbers(root / "proc/meminfo")
    available, total = table.get("MemAvailable"), table.get("MemTotal")
    if total is None or "AnonPages" not in table:
        return available
    left = total - sum(table.get(name, 0) for name in _HELD) - total // _UNTOLD_SHARE
    return max(left, available or 0)


def available_bytes(root: Path = Path("/")) -> int | None:
    """Return how much memory this process can take without pushing anything out, cached files aside.

    What the machine has is one bound, the limits of its control group and of all above it are others. None when the
    machine does not say. `root` stands for the file system.
    """
    bounds = [_left_on_machine(root)]
    for mount, group in _groups(root):
        # A container may not show the group's own path; the mount's top carries the limit then.
        bounds += [_headroom(mount / part) for part in (group, *group.parents)]
    known = [bound for bound in bounds if bound is not None]
    return min(known) if known else None


def huge_bytes(size: int) -> NDArray[np.uint8]:
    """Reserve `size` bytes, in huge pages where the kernel has some; they count once they are written.

    Raises `MemoryError`.
    """
    try:
        memory = mmap.mmap(-1, size + HUGE_PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (OSError, OverflowError):
        raise MemoryError(f"no {size} bytes of memory") from None
    with suppress(OSError):  # a kernel without huge pages
        memory.madvise(mmap.MADV_HUGEPAGE)
    data: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
    first = -data.ctypes.data % HUGE_PAGE
    return data[first : first + size]


class Arena:
    """Memory that is handed out from front to back. It lives as long as its user."""

    def __init__(self, size: int) -> None:
        """Reserve `size` bytes. Raises `MemoryError`."""
        self._data = huge_bytes(size)
        self.used = 0

    @staticmethod
    def room(size: int) -> int:
        """Bytes that an allocation of `size` takes."""
        return -(-size // _ALIGNMENT) * _ALIGNMENT

    def take(self, size: int) -> int:
        """Return the address of `size` bytes, aligned for all kernels. Raises `MemoryError` when they are not left."""
        first, self.used = self.used, self.used + self.room(size)
        if self.used > len(self._data):
            raise MemoryError(f"{self.used - len(self._data)} bytes more than were reserved")
        return int(self._data.ctypes.data) + first


def release(data: NDArray[np.uint8]) -> None:
    """Give back the memory of a mapped file's bytes, which will not be read soon; they stay what they are.

    Does nothing for bytes that are not mapped from a file.
    """
    base: object = data
    while isinstance(base, np.ndarray):
        base = base.base
    mapping = base.obj if isinstance(base, memoryview) else base
    if not isinstance(mapping, mmap.mmap) or not len(data):
        return
    first = int(data.ctypes.data) - int(np.frombuffer(mapping, np.uint8).ctypes.data)
    start = first // mmap.PAGESIZE * mmap.PAGESIZE
    mapping.madvise(mmap.MADV_DONTNEED, start, first + len(data) - start)
