"""Clients of a batch: when their tokens came."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

from strata_runtime.batch.batch import Batch, Ticket
from strata_runtime.batch.events import Event, Failure
from strata_runtime.params import SamplingParams

GREEDY = SamplingParams(temperature=0)

Tick = Callable[[], None]
"""Called ten times a second while clients are waited for; it may raise to end that."""

_TICK_S = 0.1


@dataclass(eq=False, slots=True)
class Client:
    """One request. `leaves`: after so many tokens; None: never. Times are of `perf_counter`.

    `finish`: why it ended; None before that, and when it failed, for which `failure` has the reason.
    """

    ids: Sequence[int]
    wanted: int
    leaves: int | None = None
    asked: float = 0.0
    ticket: Ticket | None = None
    tokens: list[int] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    finish: str | None = None
    failure: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, what: Event | Failure) -> None:
        """Take what the batch tells."""
        if isinstance(what, Failure):
            self.failure = what.message
            self.ended.set()
            return
        if what.token_id is not None:
            self.times.append(perf_counter())
            self.tokens.append(what.token_id)
        if self.leaves is not None and len(self.tokens) >= self.leaves:
            self.leave()
        if what.finish is not None:
            self.finish = what.finish
            self.ended.set()

    def leave(self) -> None:
        """Ask for no more."""
        if self.ticket is not None:
            self.ticket.cancel()

    @property
    def first_s(self) -> float | None:
        """Seconds to the first token, None when none came."""
        return self.times[0] - self.asked if self.times else None

    def pauses(self, since: float) -> list[tuple[float, float]]:
        """Return (when it began, seconds) of each wait for a further token that ended behind `since`."""
        return [(last, now - last) for last, now in pairwise(self.times) if now > since]

    def rate(self, begin: float, end: float) -> float | None:
        """Return tokens a second over a time, as far as the text went; None when it had ended before."""
        end = min(end, self.times[-1])
        return sum(begin < at <= end for at in self.times) / (end - begin) if end > begin else None


def ask(batch: Batch, ids: Sequence[int], wanted: int, leaves: int | None = None) -> Client:
    """Ask for a greedy text of exactly `wanted` tokens, as far as the context goes. Raises `UserError`."""
    client = Client(ids, wanted, leaves, asked=perf_counter())
    client.ticket = batch.submit(ids, GREEDY, max_tokens=wanted, ignore_eos=True, listener=client)
    return client


def wait(clients: Iterable[Client], tick: Tick, patience_s: float | None = None) -> bool:
    """Wait for the ends of all clients; return whether they came within `patience_s`."""
    until = None if patience_s is None else perf_counter() + patience_s
    for client in clients:
        while not client.ended.wait(_TICK_S):
            tick()
            if until is not None and perf_counter() > until:
                return False
    return True


def rest(seconds: float, tick: Tick) -> None:
    """Do nothing for a while."""
    until = perf_counter() + seconds
    while (left := until - perf_counter()) > 0:
        threading.Event().wait(min(left, _TICK_S))
        tick()
