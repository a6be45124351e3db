"""How many tokens the next window takes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from statistics import median
from typing import Protocol

_TRIED_FIRST = (1, 2, 4)
_TRIES = 3
_RECENT = 9  # runs of a width whose median is its cost: a neighbour's burst of work must not decide
_MEMORY = 0.99  # by which what is known of drafts fades with each window
_BEFORE = 2  # drafts that the rate of the place before counts as
_PROBED_EACH = 96  # windows, after which a neighbour of the best width is measured again
_PROBES = 3  # windows in a row: the first one after single tokens may have some of them to catch up with


class Width(Protocol):
    """Chooses the width of each window."""

    def choose(self) -> int:
        """Return how many tokens the next window should take, at least 1."""
        ...

    def record(self, tokens: int, right: int, seconds: float) -> None:
        """Learn from a window of `tokens` tokens, of whose drafts the first `right` were right.

        `seconds`: time of the pass and of drafting.
        """
        ...


@dataclass(frozen=True, slots=True)
class FixedWidth:
    """Always the same width."""

    tokens: int

    def choose(self) -> int:
        """Return it."""
        return self.tokens

    def record(self, tokens: int, right: int, seconds: float) -> None:
        """Learn nothing."""


class MeasuredWidth:
    """The width with the most expected tokens over measured time.

    Expected tokens come from how often the first draft was right, the second when the first was, and so on; earlier
    windows count less and less. The time of a width that was not run yet is guessed from its neighbours', and measured
    as soon as it is the best. Widths change with the machine's mood; the text does not depend on them.
    """

    def __init__(self, most: int) -> None:
        """`most`: tokens of the widest window."""
        self._most = most
        self._tried = iter([width for width in _TRIED_FIRST if width <= most] * _TRIES)
        self._chosen = 0
        self._recent = [deque[float](maxlen=_RECENT) for _ in range(most + 1)]
        self._cost: dict[int, float] = {}
        # By a draft's place, of those whose predecessors were right.
        self._right = [0.0] * most
        self._judged = [0.0] * most

    def choose(self) -> int:
        """Return a width that is to be measured, or the best one."""
        if first := next(self._tried, 0):
            return first
        best = self.best()
        self._chosen += 1
        if self._chosen < _PROBED_EACH or self._chosen % _PROBED_EACH >= _PROBES:
            return best
        step = 1 if self._chosen // _PROBED_EACH % 2 else -1
        return max(1, min(self._most, best + step))

    def record(self, tokens: int, right: int, seconds: float) -> None:
        """Take a window into the averages."""
        self._recent[tokens].append(seconds)
        self._cost[tokens] = median(self._recent[tokens])
        for place in range(self._most):
            is_judged = place < min(right + 1, tokens - 1)
            self._right[place] = self._right[place] * _MEMORY + (place < right)
            self._judged[place] = self._judged[place] * _MEMORY + is_judged

    def best(self) -> int:
        """Return the width with the most expected tokens per second, the narrowest of equals."""
        return max(enumerate(self.expected(), 1), key=lambda at: at[1] / self.cost(at[0]))[0]

    def expected(self) -> list[float]:
        """Return the tokens that windows of 1, 2, ... tokens, up to the widest window, give on average."""
        totals, chance, rate = [1.0], 1.0, 0.5
        for right, judged in zip(self._right[: self._most - 1], self._judged, strict=False):
            # What is known of a place is little where narrow windows are the rule: it is taken to be as the one before.
            rate = (right + _BEFORE * rate) / (judged + _BEFORE)
            chance *= rate
            totals.append(totals[-1] + chance)
        return totals

    def cost(self, width: int) -> float:
        """Return the seconds of a window: measured, or on the line through the two nearest widths that were."""
        if known := self._cost.get(width):
            return known
        if len(self._cost) < 2:
            return min(self._cost.values(), default=1.0)
        low, high = sorted(sorted(self._cost, key=lambda other: abs(other - width))[:2])
        slope = max(0.0, (self._cost[high] - self._cost[low]) / (high - low))
        return max(self._cost[low] + slope * (width - low), 1e-9)
