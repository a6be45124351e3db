"""Cases in turn, round by round, so that whatever else the machine does hits all of them alike."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import TypeVar

from strata_runtime.bench.cases import Case, Plan
from strata_runtime.bench.memory import ReadBuffer, peak_resident
from strata_runtime.bench.parts import Parts
from strata_runtime.bench.subject import Clock, Subject
from strata_runtime.progress import Progress

_Case = TypeVar("_Case")

PARTS_ROUNDS = 3
"""Rounds in which native calls have a clock around them: apart from the others, because clocks take time too."""


class Measurement:
    """The samples of a plan. What was measured stays when `run` is interrupted.

    `seconds`: of one unit, by case and round. `bandwidth`: bytes per second by threads and round. `parts`: of
    `PARTS_ROUNDS` further rounds.
    """

    def __init__(self, plan: Plan, subject: Subject, buffer_bytes: int | None = None) -> None:
        """`buffer_bytes`: size of the memory whose reading shows the bandwidth; None lets it choose."""
        self.plan = plan
        self.seconds: dict[Case, list[float]] = {case: [] for case in plan.cases}
        self.bandwidth: dict[int, list[float]] = {threads: [] for threads in plan.threads}
        self.parts: dict[Case, list[Parts]] = {case: [] for case in plan.cases}
        self._subject = subject
        self._buffer_bytes = buffer_bytes
        self._peak_before, self._own_bytes = peak_resident(), 0

    @property
    def peak_bytes(self) -> int:
        """The largest resident set, without the memory that is only read for its bandwidth."""
        return max(self._peak_before, peak_resident() - self._own_bytes)

    def run(
        self,
        progress: Progress | None = None,
        *,
        tick: Callable[[], None] | None = None,
        clock: Clock = perf_counter,
    ) -> None:
        """Take all samples. The first round warms up and does not count.

        progress: called with (done, total) samples, tick: between passes; both may raise to end here.
        """
        plan, subject = self.plan, self._subject
        total, done = len(plan.cases) * (1 + plan.rounds + PARTS_ROUNDS), 0

        def advance() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total)

        for case in plan.cases:
            subject.seconds(case, 0, tick=tick)
            advance()
        self._peak_before = peak_resident()
        buffer = ReadBuffer(subject.native, self._buffer_bytes)
        self._own_bytes = buffer.bytes
        for turn in range(1, plan.rounds + 1):
            for threads, rates in self.bandwidth.items():
                rates.append(buffer.bandwidth(subject.pools[threads], clock))
            for case in rotated(plan.cases, turn):
                self.seconds[case].append(subject.seconds(case, turn, tick=tick, clock=clock))
                advance()
        for turn in range(plan.rounds + 1, plan.rounds + 1 + PARTS_ROUNDS):
            for case in rotated(plan.cases, turn):
                if subject.has_parts:
                    self.parts[case].append(subject.parts(case, turn, tick=tick, clock=clock))
                advance()


def rotated(cases: tuple[_Case, ...], turn: int) -> tuple[_Case, ...]:
    """Begin every round with another case: none always comes after the same one's cache and clock frequency."""
    at = turn % len(cases)
    return cases[at:] + cases[:at]
