"""`strata serve` in a process of its own, as its users start it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAKE = ROOT / "tests" / "support" / "fake_serve.py"


def environment(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    paths = [str(ROOT / name) for name in ("generator", "runtime", "tests")]
    return {**clean, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1", **more}


@dataclass
class Served:
    """A running server: the facts that it wrote when it was ready, and the lines of its log."""

    process: subprocess.Popen[str]
    facts: dict
    log: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.facts["url"]

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log if line.startswith("{")]

    def stop(self, number: int, seconds: float = 20.0) -> int:
        """Send a signal; return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(seconds)


@contextmanager
def served(command: list, *args: object, **variables: str) -> Iterator[Served]:
    """Start a server on a free port and wait until it is ready. It is killed at the end."""
    words = [*map(str, command), "serve", *map(str, args), "--port", "0", "--json"]
    process = subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(**variables),
        text=True,
    )
    log: list[str] = []
    reader = threading.Thread(target=lambda: log.extend(process.stderr), daemon=True)
    reader.start()
    try:
        first = process.stdout.readline()
        assert first, "".join(log) or process.wait(10)
        yield Served(process, json.loads(first), log)
    finally:
        process.kill()
        process.wait()
        reader.join()


def fake(*args: object, **variables: str):
    """Start a server over doubles."""
    return served([sys.executable, FAKE], *args, **variables)


def strata(*args: object, **variables: str):
    """Start the command itself."""
    return served([sys.executable, "-c", "from strata_runtime.cli.main import main; main()"], *args, **variables)
