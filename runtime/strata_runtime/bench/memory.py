"""What memory gives, and how much of it this process took."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from strata_runtime.memory import available_bytes, huge_bytes
from strata_runtime.native import NativeModule, Pool

_BUFFER_BYTES = 512 << 20  # more than the caches of the largest CPUs
_LEAST_BYTES = 32 << 20
_PART = 8  # of the memory that is free


class ReadBuffer:
    """Memory of its own, larger than the caches, whose reading shows the bandwidth of a pool's cores.

    It lies in huge pages, as arranged weights do.
    """

    def __init__(self, native: NativeModule, size: int | None = None) -> None:
        """Fill `size` bytes, by default 512 MiB, or an eighth of what is free where that is less."""
        size = (
            min(_BUFFER_BYTES, max(_LEAST_BYTES, (available_bytes() or _BUFFER_BYTES) // _PART))
            if size is None
            else size
        )
        self._native = native
        self._data = huge_bytes(size)
        self._data.fill(1)
        self.bytes = size

    def bandwidth(self, pool: Pool, clock: Callable[[], float] = perf_counter) -> float:
        """Read everything once with all workers of `pool`; return bytes per second."""
        started = clock()
        self._native.checksum(pool, self._data.ctypes.data, self.bytes)
        return self.bytes / (clock() - started)


def _field(file: str, name: str) -> int | None:
    """Return a size in bytes out of a table of /proc, None where there is no such."""
    try:
        lines = Path(file).read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)


def resident() -> int:
    """Return this process's resident set, in bytes; 0 where nobody tells."""
    return _field("/proc/self/status", "VmRSS") or 0


def reset_peak() -> bool:
    """Let `peak_resident` forget what was before; return whether the system allows that."""
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return False
    return True


def peak_resident() -> int:
    """Return this process's largest resident set so far, or since `reset_peak`, in bytes."""
    # Unlike getrusage, this does not count what the parent process held when it made this one.
    return _field("/proc/self/status", "VmHWM") or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
