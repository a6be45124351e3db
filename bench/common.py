"""What the benchmarks share: workers in their own processes, hardware in words, tables, JSON and plots."""

from __future__ import annotations

import json
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from statistics import median
from typing import Any, TextIO

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "examples" / "models" / "strata-tiny"

Message = dict[str, Any]


class Worker:
    """This script again as `--worker NAME`, in a process of its own, answering one JSON line with one JSON line.

    Two implementations that are compared never share a process: neither sees the other's threads, caches or memory.
    """

    def __init__(self, script: Path, name: str, arguments: Sequence[str], threads: int) -> None:
        self.name = name
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        command = [sys.executable, str(script), *arguments, "--worker", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **message: Any) -> Message:
        """Send a message and return the answer. Raises `RuntimeError` when the worker has died."""
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"worker '{self.name}' ended with exit code {self._process.wait()}")
        answer: Message = json.loads(line)
        return answer

    def close(self) -> None:
        """Let the worker end and wait for it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def serve(answer: Callable[[Message], Message]) -> None:
    """Be a worker: answer messages until the asker goes away. Whatever else is printed goes to stderr."""
    replies = _claim_stdout()
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


def _claim_stdout() -> TextIO:
    """Keep the real stdout for replies and point file descriptor 1 at stderr, for prints of Python and C alike."""
    sys.stdout.flush()
    kept = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return kept


def quiet_transformers() -> None:
    """Silence progress bars and the report of weights that transformers does not use (the extra layer's)."""
    from transformers.utils import logging

    untyped: Any = logging
    untyped.set_verbosity_error()
    untyped.disable_progress_bar()


def peak_memory() -> int:
    """Return this process's largest resident set so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def usable_cpus() -> int:
    """Return how many CPUs this process may run on."""
    return len(os.sched_getaffinity(0))


def surroundings() -> dict[str, str]:
    """Return the hardware and software that a figure belongs to."""
    model = platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = (line.partition(":")[2].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line)
        model = next(names, model)
    versions = {name: metadata.version(name) for name in ("strata-gen", "torch", "transformers")}
    return {
        "cpu": f"{model}, {usable_cpus()} usable CPUs",
        "vector_levels": ", ".join(_vector_levels()) or "unknown",
        "load": f"{os.getloadavg()[0]:.1f} in the last minute, the benchmark's own included",
        "python": platform.python_version(),
        **versions,
    }


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


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines with columns of equal width, the first left and the others right; the first row is the head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        return "  ".join(cells).rstrip()

    return [line(rows[0]), "  ".join("-" * width for width in widths), *map(line, rows[1:])]


def project_text() -> str:
    """Return the project's own Python sources, one after the other in name order."""
    files = sorted([*ROOT.glob("generator/**/*.py"), *ROOT.glob("runtime/**/*.py")])
    return "\n".join(file.read_text(encoding="utf-8") for file in files)
