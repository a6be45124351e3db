"""Counts and rates of a batch."""

from __future__ import annotations

from collections import deque
from dataclasses import fields, replace
from time import monotonic

from strata_runtime.batch.status import Totals

_SECONDS = 5.0  # that the rate is of


class Counter:
    """Counts since the batch began, and how many tokens were drawn in the last seconds."""

    def __init__(self) -> None:
        self.began = monotonic()
        self.totals = Totals()
        self.drafted = self.accepted = 0
        self._drawn: deque[tuple[float, int]] = deque()

    def add(self, **counts: int) -> None:
        """Add to totals, by name."""
        known = {field.name: getattr(self.totals, field.name) for field in fields(self.totals)}
        self.totals = replace(self.totals, **{name: known[name] + count for name, count in counts.items()})

    def drew(self, tokens: int) -> None:
        """Count tokens that were drawn now."""
        now = monotonic()
        self._drawn.append((now, tokens))
        while self._drawn[0][0] < now - _SECONDS:
            self._drawn.popleft()

    @property
    def rate(self) -> float:
        """Tokens a second over the last seconds, or since the batch began."""
        now = monotonic()
        tokens = sum(count for at, count in tuple(self._drawn) if at >= now - _SECONDS)
        return tokens / max(1e-3, min(_SECONDS, now - self.began))
