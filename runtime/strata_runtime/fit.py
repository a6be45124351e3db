"""How well a kernels package fits a machine: its GPU's architecture and the instructions of its CPU."""

from __future__ import annotations

import re
from enum import IntEnum
from pathlib import Path

from strata_runtime.manifest import Manifest

_CUDA_ARCH = re.compile(r"sm_([0-9]+)([0-9])")
_CPUINFO = Path("/proc/cpuinfo")


class Fit(IntEnum):
    """Kinds of packages, the best first."""

    EXACT = 0  # for the GPU here
    FAMILY = 1  # for a GPU whose code this one is said to run
    MINOR = 2  # for an older GPU of the same major version, and nobody says that this one does not run its code
    CPU = 3
    NONE = 4


def _capability(arch: str) -> tuple[int, int] | None:
    match = _CUDA_ARCH.fullmatch(arch)
    return (int(match[1]), int(match[2])) if match else None


def fit_of_gpu(manifest: Manifest, arch: str) -> Fit:
    """Say how well a package for GPUs fits one of architecture `arch`."""
    if arch == manifest.arch:
        return Fit.EXACT
    if arch in manifest.runs_on:
        return Fit.FAMILY
    own, other = _capability(manifest.arch), _capability(arch)
    if own is None or other is None or arch in manifest.not_on:
        return Fit.NONE
    return Fit.MINOR if own[0] == other[0] and own[1] < other[1] else Fit.NONE


def lacking(manifest: Manifest, cpuinfo: Path = _CPUINFO) -> tuple[str, ...]:
    """Return the CPU flags that a package's weakest level needs and this machine lacks; none where they are unknown."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ()
    rows = [frozenset(line.partition(":")[2].split()) for line in lines if line.partition(":")[0].strip() == "flags"]
    flags = frozenset.intersection(*rows) if rows else frozenset(manifest.cpu_flags)
    return tuple(flag for flag in manifest.cpu_flags if flag not in flags)
