"""What came of a random load."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from strata_runtime.batch.status import Totals
from strata_runtime.bench.serving.random_load import Load
from strata_runtime.sizes import size


@dataclass(frozen=True, slots=True)
class Loaded:
    """One run of a random load: counts of requests, and seconds.

    `left`: whose client did not wait for the end. `lost`: that came to no end. `wrong`: of the `compared` texts, those
    that are not what their request gives alone. `rate`: tokens a second of all together, while
    clients ask. `first_median`, `first_99`:
    to the first token. `pause`: the longest of any text. `slope`: bytes a second that memory grew by in the second half
    of the time, None for one too short to say. `memory`: (when, bytes). `is_cut`: whether it was ended before its time.
    `pauses`: of the texts that were compared, as `FeltStream.pauses`.
    """

    requests: int
    finished: int
    left: int
    failures: tuple[str, ...]
    lost: int
    compared: int
    wrong: int
    give_ways: int
    concurrent_reads: int
    rate: float
    first_median: float
    first_99: float
    pause: float
    slope: float | None
    is_flat: bool | None
    memory: tuple[tuple[float, int], ...]
    is_cut: bool
    peak_bytes: int | None
    pauses: tuple[tuple[tuple[float, float], ...], ...]

    @classmethod
    def of(cls, load: Load, totals: Totals, wrong: int, peak_bytes: int | None) -> Self:
        """Sum up a load. `totals`: of its batch, once it was closed."""
        return cls(
            requests=load.requests,
            finished=load.finished,
            left=load.left,
            failures=tuple(load.failures),
            lost=max(load.lost, load.requests - totals.finished - totals.cancelled - totals.failed),
            compared=len(load.sample),
            wrong=wrong,
            give_ways=totals.give_ways,
            concurrent_reads=totals.concurrent_reads,
            rate=load.rate,
            first_median=load.first_median,
            first_99=load.first_99,
            pause=load.pause,
            slope=load.memory.slope,
            is_flat=load.memory.is_flat,
            memory=tuple(load.memory.seen),
            is_cut=load.is_cut,
            peak_bytes=peak_bytes,
            pauses=tuple(
                tuple((at - load.began, seconds) for at, seconds in client.pauses(load.began)) for client in load.sample
            ),
        )

    def problems(self) -> Iterator[str]:
        """Yield what must not be."""
        if self.lost:
            yield f"{self.lost} of {self.requests} requests came to no end"
        if self.failures:
            yield f"{len(self.failures)} of {self.requests} requests failed, the first one: {self.failures[0]}"
        if self.wrong:
            yield f"{self.wrong} of {self.compared} texts are not those of the same requests alone"
        if self.is_flat is False and self.slope is not None:
            yield f"memory grew by {size(round(self.slope * 60))} a minute in the second half"
