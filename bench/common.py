"""What the benchmarks share: hardware in words, memory, spreads, tables and JSON."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any

from strata_runtime.bench.machine import cpu_name, load_average, usable_cpus

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "examples" / "models" / "strata-tiny"


def quiet_transformers() -> None:
    """Silence progress bars and the report of weights that transformers does not use (the extra layer's)."""
    from transformers.utils import logging

    untyped: Any = logging
    untyped.set_verbosity_error()
    untyped.disable_progress_bar()


def surroundings() -> dict[str, str]:
    """Return the hardware and software that a figure belongs to."""
    versions = {name: _version(name) for name in ("strata-gen", "torch", "transformers")}
    return {
        "cpu": f"{cpu_name()}, {usable_cpus()} usable CPUs",
        "vector_levels": ", ".join(_vector_levels()) or "unknown",
        "load": f"{load_average():.1f} in the last minute, the benchmark's own included",
        "python": platform.python_version(),
        **versions,
    }


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:  # a checkout on the import path, or what this benchmark does not need
        return "not installed"


def _vector_levels() -> list[str]:
    cpuinfo = Path("/proc/cpuinfo")
    text = cpuinfo.read_text() if cpuinfo.is_file() else ""
    flags = next((set(line.split()) for line in text.splitlines() if line.startswith("flags")), set[str]())
    return [flag for flag in ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if flag in flags]


def spread(values: Sequence[float]) -> dict[str, float]:
    """Return median, smallest and largest."""
    return {"median": median(values), "min": min(values), "max": max(values)}


def report(result: Mapping[str, Any], lines: Sequence[str], *, as_json: bool) -> None:
    """Print one JSON object, or the surroundings and the given lines."""
    if as_json:
        print(json.dumps({"surroundings": surroundings(), **result}, indent=2))
        return
    for name, value in surroundings().items():
        print(f"{name:>14}  {value}")
    print(*lines, sep="\n")


def project_text() -> str:
    """Return the project's own Python sources, one after the other in name order."""
    files = sorted([*ROOT.glob("generator/**/*.py"), *ROOT.glob("runtime/**/*.py")])
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
