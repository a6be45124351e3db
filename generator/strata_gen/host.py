"""The CPU of this machine, and which micro-kernel levels it can run."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from strata_gen.model.target import CpuLevel

_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True, slots=True)
class HostCpu:
    """One machine's CPU. `flags` are the names in /proc/cpuinfo that every core has."""

    machine: str
    name: str
    flags: frozenset[str]

    def missing(self, level: CpuLevel) -> tuple[str, ...]:
        """Return the flags that `level` needs and this CPU lacks, in the level's order."""
        return tuple(flag for flag in level.cpu_flags if flag not in self.flags)


def parse_cpuinfo(text: str, machine: str) -> HostCpu:
    """Read the text of /proc/cpuinfo; a flag counts when all processors have it."""
    rows = [(key.strip(), value.strip()) for key, _, value in (line.partition(":") for line in text.splitlines())]
    flags = [frozenset(value.split()) for key, value in rows if key == "flags"]
    name = next((value for key, value in rows if key == "model name"), "unknown CPU")
    return HostCpu(machine, name, frozenset.intersection(*flags) if flags else frozenset())


def read_host() -> HostCpu:
    """Return the CPU of this machine; without a readable /proc/cpuinfo it has no flags."""
    try:
        text = _CPUINFO.read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    return parse_cpuinfo(text, platform.machine())


def best_level(levels: Sequence[CpuLevel], host: HostCpu) -> CpuLevel | None:
    """Return the last of `levels` (weakest first) that `host` can run; None when it can run none."""
    return next((level for level in reversed(levels) if not host.missing(level)), None)
