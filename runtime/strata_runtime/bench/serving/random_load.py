"""Random load on a batch: joins, questions, follow-ups, and clients that leave; every request must come to its end."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from time import perf_counter

from strata_runtime.batch.batch import Batch
from strata_runtime.bench.memory import resident
from strata_runtime.bench.serving.clients import Client, ask, wait
from strata_runtime.bench.serving.scenarios import RANDOM_ANSWER
from strata_runtime.bench.serving.sizes import most_at_once
from strata_runtime.bench.serving.steadiness import Steadiness

PATIENCE_S = 120.0
"""For an end that has to come: one that takes longer counts as lost."""

_QUESTION = 40  # tokens of a short prompt, at most
_FOLLOWS = 20  # tokens behind a text that is gone on with
_LONG, _FOLLOW_UP, _LEAVES = 0.3, 0.2, 0.2  # shares of the requests
_SAMPLES = 60  # of memory


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """`longest`: tokens of a prompt. `compared`: how many texts, drawn from all, are kept to be compared."""

    seconds: float
    longest: int
    compared: int
    seed: int


@dataclass(slots=True)
class Load:
    """What became of the requests. `lost`: that came to no end. `first`: seconds to first tokens. `began`: when.

    `tokens`: those that came within `seconds`, the time of asking. `is_cut`: whether it was ended before its time.
    `sample`: requests that were drawn from all with the same chance each, to compare their texts.
    """

    began: float
    requests: int = 0
    finished: int = 0
    left: int = 0
    failures: list[str] = field(default_factory=list)
    lost: int = 0
    tokens: int = 0
    pause: float = 0.0
    first: list[float] = field(default_factory=list)
    sample: list[Client] = field(default_factory=list)
    memory: Steadiness = field(default_factory=Steadiness)
    seconds: float = 0.0
    is_cut: bool = False

    @property
    def rate(self) -> float:
        """Tokens a second of all requests together."""
        return self.tokens / self.seconds

    @property
    def first_median(self) -> float:
        """Seconds to the first token, the median."""
        return median(self.first) if self.first else 0.0

    @property
    def first_99(self) -> float:
        """Seconds to the first token, the 99th percentile."""
        return quantiles(self.first, n=100, method="inclusive")[98] if len(self.first) > 1 else self.first_median


class RandomLoad:
    """Asks a batch at random for a while."""

    def __init__(self, batch: Batch, text: Sequence[int], plan: LoadPlan, slots: int) -> None:
        """`text`: token ids that prompts are cut from. `slots`: of the batch; half as many again wait."""
        self._batch, self._text, self._plan = batch, text, plan
        self._most = most_at_once(slots)
        self._choose = random.Random(plan.seed)
        self._going: list[Client] = []
        self._leaving: list[tuple[float, Client]] = []
        self._ended: Client | None = None
        self._slowest_s = 0.0

    def run(self, tick: Callable[[float], None]) -> Load:
        """Ask for a while, and wait for all ends.

        tick: called with the seconds so far; `KeyboardInterrupt` ends the asking.
        """
        load = Load(began=perf_counter())
        try:
            while (now := perf_counter() - load.began) < self._plan.seconds and not load.lost:
                tick(now)
                self._step(load, now)
        except KeyboardInterrupt:
            load.is_cut = True
        load.seconds = perf_counter() - load.began
        for _, client in self._leaving:
            client.leave()
        wait(self._going, _nothing, PATIENCE_S)
        self._collect(load, is_over=True)
        return load

    def _step(self, load: Load, now: float) -> None:
        load.memory.look(now, self._plan.seconds / _SAMPLES, resident)
        self._collect(load)
        if len(self._going) < self._most:
            self._ask(load)
        else:
            self._going[0].ended.wait(0.01)

    def _ask(self, load: Load) -> None:
        choose, longest = self._choose, self._plan.longest
        kind, before = choose.random(), self._ended
        if kind < _FOLLOW_UP and before is not None:
            ids: Sequence[int] = [*before.ids, *before.tokens, *self._cut(_FOLLOWS)][:longest]
        else:
            ids = self._cut(choose.randint(1, longest if kind < _FOLLOW_UP + _LONG else min(_QUESTION, longest)))
        leaves, at_once = choose.random() < _LEAVES, choose.random() < 0.5
        after = choose.randint(1, RANDOM_ANSWER // 2) if leaves and not at_once else None
        client = ask(self._batch, ids, choose.randint(1, RANDOM_ANSWER), after)
        if leaves and at_once:  # while it waits, while its prompt is read, or soon after
            self._leaving.append((client.asked + choose.uniform(0, self._slowest_s), client))
        self._going.append(client)
        load.requests += 1
        self._keep(load, client)

    def _cut(self, tokens: int) -> Sequence[int]:
        at = self._choose.randrange(len(self._text) - tokens)
        return self._text[at : at + tokens]

    def _keep(self, load: Load, client: Client) -> None:
        """Draw the sample: each of the requests so far is in it with the same chance."""
        if len(load.sample) < self._plan.compared:
            load.sample.append(client)
        elif (place := self._choose.randrange(load.requests)) < self._plan.compared:
            load.sample[place] = client

    def _collect(self, load: Load, *, is_over: bool = False) -> None:
        """Take in those that have ended; the others are lost when it is over, or have been waited for too long."""
        now = perf_counter()
        until = load.began + load.seconds if is_over else now
        for at, client in self._leaving:
            if at <= now:
                client.leave()
        self._leaving = [(at, client) for at, client in self._leaving if at > now and not client.ended.is_set()]
        ended = [client for client in self._going if client.ended.is_set()]
        self._going = [client for client in self._going if not client.ended.is_set()]
        load.lost += len(self._going) if is_over else sum(now - each.asked > PATIENCE_S for each in self._going)
        for client in ended:
            load.finished += client.finish == "length"
            load.left += client.finish == "cancelled"
            load.failures += [client.failure] if client.failure is not None else []
            load.tokens += sum(at <= until for at in client.times)
            load.pause = max([load.pause, *(seconds for _, seconds in client.pauses(load.began))])
            if client.first_s is not None:
                load.first.append(client.first_s)
                self._slowest_s = max(self._slowest_s, client.first_s)
                self._ended = client


def _nothing() -> None:
    """Wait for what has to come."""
