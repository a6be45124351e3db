"""A server of `strata serve` for benchmarks, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

COMMAND = (sys.executable, "-c", "from strata_runtime.cli.main import main; main()", "serve")
STOP_S = 60


@contextmanager
def serving(*args: str) -> Iterator[dict[str, Any]]:
    """Start a server on a free port; yield the facts of its start, stop it at the end.

    Raises `SystemExit` with what it said when it does not start.
    """
    with tempfile.TemporaryFile("w+") as log:
        words = [*COMMAND, *args, "--port", "0", "--json"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=log, text=True)
        try:
            line = process.stdout.readline() if process.stdout is not None else ""
            if not line:
                process.wait()
                log.seek(0)
                raise SystemExit(log.read())
            facts: dict[str, Any] = json.loads(line)
            yield {**facts, "pid": process.pid}
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
