"""What a pool that is stuck for a test waits for, and a forked child that is not waited for in vain."""

from __future__ import annotations

import os
import signal
import time
import traceback
from collections.abc import Callable, Iterator


class Gate:
    """`file` can be read once the gate is open."""

    def __init__(self) -> None:
        self.file, self._write = os.pipe()
        self._is_open = False

    def open(self) -> None:
        """Let everybody through, now and later. Idempotent."""
        if not self._is_open:
            self._is_open = True
            os.close(self._write)

    def close(self) -> None:
        """Open it, and free the file."""
        self.open()
        os.close(self.file)


def opened_at_end() -> Iterator[Gate]:
    """For fixtures."""
    gate = Gate()
    yield gate
    gate.close()


def child_code(body: Callable[[], None], seconds: float = 60) -> int:
    """Fork, run `body` in the child, and return its exit code: 1 when it raised, -9 when it came to no end in time."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            body()
            code = 0
        finally:
            if code != 0:
                traceback.print_exc()
            os._exit(code)
    until = time.monotonic() + seconds
    while (done := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(child, signal.SIGKILL)
            done = os.waitpid(child, 0)
            break
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(done[1])
