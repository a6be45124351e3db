"""The hardware and software that a figure belongs to."""

from __future__ import annotations

import os
import platform
from pathlib import Path


def usable_cpus() -> int:
    """Return how many CPUs this process may run on."""
    return len(os.sched_getaffinity(0))


def cpu_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def load_average() -> float:
    """Return the mean number of running processes over the last minute, this one included."""
    return os.getloadavg()[0]
