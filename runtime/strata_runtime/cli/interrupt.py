"""Ctrl-C between steps instead of anywhere."""

from __future__ import annotations

import signal
from types import FrameType, TracebackType
from typing import Self

from strata_runtime.progress import Progress


class Interrupt:
    """While entered, the first Ctrl-C is only noted, so that a step and what it writes are never torn apart.

    The second one raises `KeyboardInterrupt` wherever it comes, for what does not get to its next step.
    """

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> Self:
        self._previous = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        signal.signal(signal.SIGINT, self._previous)

    def _note(self, _signal: int, _frame: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True

    def between(self, progress: Progress | None) -> Progress:
        """Return a progress callback that raises `KeyboardInterrupt` once Ctrl-C was noted."""

        def check(done: int, total: int) -> None:
            if self.requested:
                raise KeyboardInterrupt
            if progress is not None:
                progress(done, total)

        return check
