"""Who works beside whom on one network."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

WINDOWS = 0
"""The lane of windows, and of everything that does not run beside them."""


class Lanes(threading.local):
    """Which lane each thread works on: `current`, that of windows unless it entered another one.

    A lane has what two passes at a time cannot share: activations, inputs, scratch memory, a stream, a turn at the
    pool. One thread at a time works on a lane. It is asked for some 70 times in a pass of one token.
    """

    current = WINDOWS

    @contextmanager
    def entered(self, lane: int) -> Iterator[None]:
        """Let the calling thread work on a lane for a while."""
        before = self.current
        self.current = lane
        try:
            yield
        finally:
            self.current = before
