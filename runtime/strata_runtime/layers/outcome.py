"""What a pass made: logits that are brought to the CPU when somebody looks at them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray


class Outcome:
    """Logits, float32 [n, vocab_size], and their `total`, which is finite when all are.

    They may be looked at until the next window, which may write its own to the same memory.
    """

    def __init__(self, total: float, fetch: Callable[[], torch.Tensor], best: Sequence[int] | None = None) -> None:
        """`fetch`: brings the logits to the CPU. `best`: the most probable token of each row, if that is known."""
        self.total = total
        self._fetch, self._best = fetch, best
        self._logits: torch.Tensor | None = None

    @staticmethod
    def on_cpu(logits: torch.Tensor) -> Outcome:
        """Return logits that are there."""
        return Outcome(float(logits.sum()), lambda: logits)

    @property
    def logits(self) -> torch.Tensor:
        """On the CPU."""
        if self._logits is None:
            self._logits = self._fetch()
        return self._logits

    def best(self, row: int) -> int:
        """Return the most probable token of a row of finite logits, the lowest id among equals."""
        return int(self.logits[row].numpy().argmax()) if self._best is None else self._best[row]

    def finite_rows(self, first: int, stop: int) -> int:
        """Return how many of the rows [first, stop) are finite in front of any that is not."""
        if math.isfinite(self.total):
            return stop - first
        bad = np.flatnonzero(~np.isfinite(self.logits[first:stop].numpy()).all(axis=-1))
        return int(bad[0]) if bad.size else stop - first


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of an outcome from `first` on, `count` of them, all finite."""

    outcome: Outcome
    first: int
    count: int

    def row(self, number: int) -> NDArray[np.float32]:
        """Return logits, float32 [vocab_size]."""
        found: NDArray[np.float32] = self.outcome.logits[self.first + number].numpy()
        return found

    def best(self, number: int) -> int:
        """Return the most probable token, the lowest id among equals."""
        return self.outcome.best(self.first + number)
