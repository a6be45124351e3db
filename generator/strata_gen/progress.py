"""What a long command says while it works: never silent for more than a few seconds, on a terminal or not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

FIRST_S = 2.0
EVERY_S = 10.0


def counted(count: int, noun: str) -> str:
    """Return a number of things in words: `1 file`, `2 files`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


class Reporter:
    """Writes whole lines to one stream, and repeats what is going on when nothing else was said for a while."""

    def __init__(self, stream: TextIO, *, first_s: float = FIRST_S, every_s: float = EVERY_S) -> None:
        self._stream, self._first_s, self._every_s = stream, first_s, every_s
        self._lock = threading.Lock()
        self._last = time.monotonic()

    def say(self, line: str) -> None:
        """Write one line now."""
        with self._lock:
            self._stream.write(line + "\n")
            self._stream.flush()
            self._last = time.monotonic()

    @contextmanager
    def step(self, doing: Callable[[], str]) -> Iterator[None]:
        """While the body runs, say `doing()` and the time it has taken: after 2 s of silence, then every 10 s."""
        started = time.monotonic()
        done = threading.Event()

        def tick() -> None:
            wait = self._first_s
            while not done.wait(wait):
                silent = time.monotonic() - max(self._last, started)
                if silent >= wait:
                    self.say(f"{doing()} ({time.monotonic() - started:.0f} s)")
                    silent, wait = 0.0, self._every_s
                wait = max(wait - silent, 0.05)

        ticker = threading.Thread(target=tick, daemon=True)
        ticker.start()
        try:
            yield
        finally:
            done.set()
            ticker.join()
