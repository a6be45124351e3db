"""Whether memory stays what it is."""

from __future__ import annotations

from collections.abc import Callable
from statistics import linear_regression, mean

_SETTLED_S = 10.0
"""Before that, buffers and prefixes fill up; nothing is said of memory that was seen for less than twice as long."""

_SHARE = 0.05
_BYTES = 16 << 20


class Steadiness:
    """Sizes of memory over time."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, int]] = []

    def look(self, now: float, every: float, size: Callable[[], int]) -> None:
        """Note the size, in bytes, unless it was noted less than `every` seconds ago."""
        if not self.seen or now - self.seen[-1][0] >= every:
            self.seen.append((now, size()))

    @property
    def slope(self) -> float | None:
        """Bytes a second that it grows by in the second half; None for a time too short to say."""
        end = self.seen[-1][0] if self.seen else 0.0
        half = [(at, size) for at, size in self.seen if at >= max(_SETTLED_S, end / 2)]
        if end < 2 * _SETTLED_S or len(half) < 3:
            return None
        return linear_regression([at for at, _ in half], [size for _, size in half]).slope

    @property
    def is_flat(self) -> bool | None:
        """Whether it grew by less than a twentieth, or 16 MiB, in the second half; None when `slope` is."""
        if (slope := self.slope) is None:
            return None
        grown = slope * self.seen[-1][0] / 2
        return grown <= max(_BYTES, _SHARE * mean(size for _, size in self.seen))
