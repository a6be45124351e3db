"""Workers in their own processes. Standard library alone: a peer's worker runs in the peer's environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

Message = dict[str, Any]


class Worker:
    """A script as `--worker NAME`, in a process of its own, answering one JSON line with one JSON line.

    Two implementations that are compared never share a process: neither sees the other's threads, caches or memory.
    """

    def __init__(
        self, script: Path, name: str, arguments: Sequence[str], threads: int, python: str = sys.executable
    ) -> None:
        """`python`: the interpreter, of an environment of its own where a peer needs one."""
        self.name = name
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
        command = [python, str(script), *arguments, "--worker", name]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **message: Any) -> Message:
        """Send a message and return the answer. Raises `RuntimeError` when the worker has died."""
        assert self._process.stdin is not None and self._process.stdout is not None
        with suppress(BrokenPipeError):  # it has died; the empty line says so
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
        with suppress(BrokenPipeError):
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
