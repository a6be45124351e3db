"""What streams feel of prompts that join them: pauses and rates, first tokens, and the time of the same work."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter

from strata_runtime.batch.batch import Batch, Ticket
from strata_runtime.batch.events import Event, Failure
from strata_runtime.errors import UserError
from strata_runtime.params import SamplingParams

_GREEDY = SamplingParams(temperature=0)


@dataclass(frozen=True, slots=True)
class Scenario:
    """Streams decode, each `stream_tokens`; `warm_s` later prompts of `joiners` tokens join them, all at once.

    Each joiner answers with `answer_tokens`. `question`: tokens of a further prompt `question_s` behind them; 0 for
    none.
    """

    name: str
    streams: int
    stream_tokens: int
    joiners: Sequence[int]
    answer_tokens: int = 16
    question: int = 0
    question_s: float = 1.0
    warm_s: float = 1.0

    @property
    def slots(self) -> int:
        """Slots with which nobody waits for one."""
        return self.streams + len(self.joiners) + (self.question > 0)


def scenarios(prompt: int, stream_tokens: int, warm_s: float = 1.0) -> dict[str, Scenario]:
    """Return the scenarios by name. `prompt`: tokens of a cold one. `warm_s`: see `Scenario`."""
    all_of_them = (
        Scenario("cold", 2, stream_tokens, (prompt,), warm_s=warm_s),
        Scenario("followup", 2, stream_tokens, (prompt,), question=24, question_s=warm_s, warm_s=warm_s),
        Scenario("two_joiners", 2, stream_tokens, (prompt, prompt), warm_s=warm_s),
    )
    return {scenario.name: scenario for scenario in all_of_them}


@dataclass(eq=False)
class Stream:
    """When the tokens of one request came, seconds of `perf_counter`."""

    asked: float
    ticket: Ticket | None = None
    times: list[float] = field(default_factory=list)
    failure: str | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def __call__(self, what: Event | Failure) -> None:
        """Take what the batch tells."""
        if isinstance(what, Failure):
            self.failure = what.message
        elif what.token_id is not None:
            self.times.append(perf_counter())
        if isinstance(what, Failure) or what.finish is not None:
            self.ended.set()

    def pauses(self, since: float) -> list[tuple[float, float]]:
        """Return (when, seconds) of each wait for a token that ended behind `since`."""
        return [(last, now - last) for last, now in pairwise(self.times) if now > since]

    def tokens(self, begin: float, end: float) -> int:
        """How many came in a time."""
        return sum(begin < at <= end for at in self.times)

    @property
    def first_s(self) -> float:
        """Seconds to the first token."""
        return self.times[0] - self.asked


@dataclass(frozen=True, slots=True)
class Felt:
    """One run of a scenario: seconds, and tokens a second of all streams together.

    `pause`: the longest of any stream since the prompts joined. `before`, `during`: the streams' rate before that, and
    until the last joiner's first token. `joiner`, `question`: to the first token, of the slowest. `total`: from the
    joining to the end of all work. `pauses`: of each stream, (when since the joining, seconds).
    """

    pause: float
    before: float
    during: float
    joiner: float
    question: float | None
    total: float
    pauses: tuple[tuple[tuple[float, float], ...], ...]


def play(batch: Batch, scenario: Scenario, text: Sequence[int]) -> Felt:
    """Play a scenario with prompts cut from `text`, token ids: each begins elsewhere.

    Raises `UserError` when a request fails.
    """
    starts = iter(range(0, len(text), max(1, len(text) // 64)))

    def ask(prompt: int, tokens: int) -> Stream:
        at = next(starts)
        ids = [*text[at:], *text[:at]]
        while len(ids) < prompt:
            ids += text
        stream = Stream(perf_counter())
        stream.ticket = batch.submit(ids[:prompt], _GREEDY, max_tokens=tokens, ignore_eos=True, listener=stream)
        return stream

    streams = [ask(16, scenario.stream_tokens) for _ in range(scenario.streams)]
    _wait_s(scenario.warm_s)
    began = perf_counter()
    joiners = [ask(prompt, scenario.answer_tokens) for prompt in scenario.joiners]
    questions = []
    if scenario.question:
        _wait_s(scenario.question_s)
        questions.append(ask(scenario.question, scenario.answer_tokens))
    for each in (*streams, *joiners, *questions):
        each.ended.wait()
        if each.failure is not None:
            raise UserError(f"a request of the scenario {scenario.name} failed: {each.failure}")
    return _felt(began, streams, joiners, questions)


def _felt(began: float, streams: Sequence[Stream], joiners: Sequence[Stream], questions: Sequence[Stream]) -> Felt:
    read = max(joiner.times[0] for joiner in joiners)
    first = max(stream.times[0] for stream in streams)
    end = max(each.times[-1] for each in (*streams, *joiners, *questions))
    pauses = tuple(tuple((at - began, s) for at, s in stream.pauses(began)) for stream in streams)
    return Felt(
        pause=max((seconds for each in pauses for _, seconds in each), default=0.0),
        before=sum(stream.tokens(first, began) for stream in streams) / max(1e-9, began - first),
        during=sum(stream.tokens(began, read) for stream in streams) / (read - began),
        joiner=max(joiner.first_s for joiner in joiners),
        question=max((question.first_s for question in questions), default=None),
        total=end - began,
        pauses=pauses,
    )


def _wait_s(seconds: float) -> None:
    threading.Event().wait(seconds)
