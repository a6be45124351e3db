"""Where the time of windows goes: phases that follow each other, measured by laps of one clock."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from time import perf_counter
from typing import Literal, Protocol

Phase = Literal["mixer", "router", "experts", "waits", "combine", "head"]


@dataclass(frozen=True, slots=True)
class WindowPhases:
    """Seconds of a number of windows by phase; together they are the windows' time.

    `mixer`: embedding, norms and attention. `router`: the norm before it, plan and doorbell. `experts`: routed ones on
    the calling thread, shared ones, and dense feed-forward layers. `waits`: for the host half. `combine`: sums of rows.
    `head`: final norm and output matrix.
    """

    windows: int = 0
    mixer: float = 0.0
    router: float = 0.0
    experts: float = 0.0
    waits: float = 0.0
    combine: float = 0.0
    head: float = 0.0

    def seconds(self) -> dict[Phase, float]:
        """Return the seconds by phase, in the order of a layer."""
        return {phase: getattr(self, phase) for phase in PHASES}

    def plus(self, other: WindowPhases) -> WindowPhases:
        """Return the sums of both."""
        names = [field.name for field in fields(self)]
        return WindowPhases(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def since(self, earlier: WindowPhases) -> WindowPhases:
        """Return what came on top of an earlier reading of the same clock."""
        names = [field.name for field in fields(self)]
        return WindowPhases(**{name: getattr(self, name) - getattr(earlier, name) for name in names})


PHASES: tuple[Phase, ...] = ("mixer", "router", "experts", "waits", "combine", "head")


class Laps(Protocol):
    """What passes call: `start` first, `lap` at the end of a phase, `stop` when the window is done."""

    def start(self) -> None: ...  # noqa: D102
    def lap(self, phase: Phase) -> None: ...  # noqa: D102
    def stop(self) -> None: ...  # noqa: D102


class NoLaps:
    """Measures nothing."""

    __slots__ = ()

    def start(self) -> None:
        """Do nothing."""

    def lap(self, phase: Phase) -> None:
        """Do nothing."""

    def stop(self) -> None:
        """Do nothing."""


class Stopwatch:
    """Adds up laps. A window that does not come to its `stop` leaves its time, and is not counted."""

    __slots__ = ("_clock", "_last", "_seconds", "_windows")

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._seconds: dict[Phase, float] = dict.fromkeys(PHASES, 0.0)
        self._last = 0.0
        self._windows = 0

    def start(self) -> None:
        """Begin a window."""
        self._last = self._clock()

    def lap(self, phase: Phase) -> None:
        """End a phase: what has passed since the last lap was it."""
        now = self._clock()
        self._seconds[phase] += now - self._last
        self._last = now

    def stop(self) -> None:
        """End a window."""
        self._windows += 1

    @property
    def phases(self) -> WindowPhases:
        """The sums so far."""
        return WindowPhases(self._windows, **self._seconds)
