"""A request on its way through a batch."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter

from strata_runtime.batch.events import Listener
from strata_runtime.batch.status import RequestUsage
from strata_runtime.decoding import Decoding
from strata_runtime.request import Request


@dataclass(slots=True, eq=False)
class Job:
    """One request. `logprobs`: how many of the most probable tokens are told of with each token; None: nothing.

    `decoding`: its text, while it has a slot; `settled`: its usage after that. `at`: tokens of the prompt in the slot's
    cache, `cached` of them without being read. `let_first`: prompt tokens of others that its read gave way to.
    `is_beside`: some of the prompt was read beside windows. Times are of `perf_counter`.
    """

    number: int
    request: Request
    listener: Listener
    logprobs: int | None
    submitted: float
    decoding: Decoding | None = None
    at: int = 0
    cached: int = 0
    let_first: int = 0
    is_beside: bool = False
    is_cancelled: bool = False
    admitted: float | None = None
    first: float | None = None
    ended: float | None = None
    settled: RequestUsage | None = None

    @property
    def rest(self) -> int:
        """Prompt tokens that are still to be read."""
        return len(self.request.ids) - self.at

    @property
    def usage(self) -> RequestUsage:
        """What it has taken so far. For any thread."""
        decoding = self.decoding  # before `settled`: once there is none any more, its usage is settled
        return self.settled or self._usage(decoding)

    def settle(self) -> None:
        """Keep no more than the usage: whoever holds a ticket should not hold a text's logits."""
        self.settled = self._usage(self.decoding)
        self.decoding = None

    def _usage(self, decoding: Decoding | None) -> RequestUsage:
        until = self.ended or perf_counter()
        admitted = self.admitted or until
        first = self.first or until
        accepted, drafted = (0, 0) if decoding is None else (decoding.acceptance.accepted, decoding.acceptance.drafted)
        return RequestUsage(
            prompt_tokens=len(self.request.ids),
            cached_tokens=self.cached,
            completion_tokens=0 if decoding is None else len(decoding.token_ids),
            queue_s=admitted - self.submitted,
            prompt_s=first - admitted,
            decode_s=until - first,
            acceptance=accepted / drafted if drafted else 0.0,
        )
