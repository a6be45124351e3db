"""A scenario is played on a batch: pauses and rates of its streams, first tokens, and the time of the same work."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter, process_time

from strata_runtime.batch.batch import Batch
from strata_runtime.bench.serving.clients import Client, Tick, ask, rest, wait
from strata_runtime.bench.serving.scenarios import ANSWER, STREAM_PROMPT, Scenario
from strata_runtime.errors import UserError
from strata_runtime.progress import Progress

_LEAST_TOKENS = 32
_WARM_TOKENS = 8
"""Drawn before anything is measured: the first windows of a GPU prepare those that follow."""
_SHARE = 0.75
"""Of the tokens that a stream would draw in the time of a read by itself: it draws fewer beside it, and goes on."""
_MARGIN = 2.0
"""Times the tokens that the first look asks for: a rate that was low then must not end streams before prompts join."""


@dataclass(frozen=True, slots=True)
class FeltStream:
    """One stream: seconds, and tokens a second.

    `pause`: the longest one since the prompts joined. `before`: its rate until then; `during`: until the last joiner's
    first token; `after`: from there to its end. None for a time in which it had ended. `pauses`: each wait for a token,
    (when it began, since the joining; how long).
    """

    pause: float | None
    before: float | None
    during: float | None
    after: float | None
    pauses: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Felt:
    """One run of a scenario, in seconds.

    `joiner`, `question`: to the first token, of the slowest. `total`: from the joining to the end of all work. `cpu`:
    processor time of that, of all threads. `give_ways`: reads that let another one go first. `peak_bytes`: largest
    resident set, None where nobody tells.
    """

    streams: tuple[FeltStream, ...]
    joiner: float
    question: float | None
    total: float
    cpu: float = 0.0
    give_ways: int = 0
    peak_bytes: int | None = None


class Prompts:
    """Prompts cut from token ids, each from another place."""

    def __init__(self, text: Sequence[int]) -> None:
        self._text = list(text)
        self._step, self._at = max(1, len(text) // 61), 0

    def __call__(self, tokens: int) -> list[int]:
        """Return the next prompt."""
        at, self._at = self._at, (self._at + self._step) % len(self._text)
        ids = self._text[at:] + self._text[:at]
        return (ids * (tokens // len(ids) + 1))[:tokens]


def fit_streams(batch: Batch, scenario: Scenario, text: Sequence[int], room: int, tick: Tick) -> Scenario:
    """Return the scenario with streams long enough to go on until its prompts are read, at most `room` tokens.

    Plays its begin, with one prompt.
    """
    prompts = Prompts(text)
    wait([ask(batch, prompts(STREAM_PROMPT), _WARM_TOKENS) for _ in range(scenario.streams)], tick)
    streams = [ask(batch, prompts(STREAM_PROMPT), room) for _ in range(scenario.streams)]
    rest(scenario.warm_s, tick)
    drawn, joiner = min(len(stream.tokens) for stream in streams), ask(batch, prompts(scenario.joiners[0]), 1)
    wait([joiner], tick)
    for stream in streams:
        stream.leave()
    wait(streams, tick)
    _require([joiner, *streams], scenario)
    read_s = (joiner.first_s or 0.0) * len(scenario.joiners)
    wanted = _MARGIN * drawn / scenario.warm_s * (scenario.warm_s + _SHARE * read_s)
    return replace(scenario, stream_tokens=min(room, max(_LEAST_TOKENS, math.ceil(wanted))))


def play(batch: Batch, scenario: Scenario, text: Sequence[int], tick: Tick, progress: Progress | None = None) -> Felt:
    """Play a scenario with prompts cut from `text`, token ids.

    progress: called with (done, total) tokens. Raises `UserError` when a request fails.
    """
    prompts = Prompts(text)
    streams = [ask(batch, prompts(STREAM_PROMPT), scenario.stream_tokens) for _ in range(scenario.streams)]
    look = _looking(streams, tick, progress)
    rest(scenario.warm_s, look)
    began, cpu = perf_counter(), process_time()
    joiners = [ask(batch, prompts(tokens), ANSWER) for tokens in scenario.joiners]
    questions = []
    if scenario.question:
        rest(scenario.warm_s, look)
        questions.append(ask(batch, prompts(scenario.question), ANSWER))
    everybody = [*streams, *joiners, *questions]
    wait(everybody, _looking(everybody, tick, progress))
    _require(everybody, scenario)
    felt = _felt(began, streams, joiners, questions)
    return replace(felt, cpu=process_time() - cpu, give_ways=batch.status().totals.give_ways)


def _looking(clients: Sequence[Client], tick: Tick, progress: Progress | None) -> Callable[[], None]:
    def look() -> None:
        tick()
        if progress is not None:
            progress(sum(len(each.tokens) for each in clients), sum(each.wanted for each in clients))

    return look


def _require(clients: Sequence[Client], scenario: Scenario) -> None:
    failures = [client.failure for client in clients if client.failure is not None]
    if failures:
        raise UserError(f"a request of the scenario {scenario.name} failed: {failures[0]}")


def _felt(began: float, streams: Sequence[Client], joiners: Sequence[Client], questions: Sequence[Client]) -> Felt:
    read = max(joiner.times[0] for joiner in joiners)
    end = max(each.times[-1] for each in (*streams, *joiners, *questions))
    return Felt(
        streams=tuple(_felt_stream(stream, began, read) for stream in streams),
        joiner=max(joiner.times[0] - joiner.asked for joiner in joiners),
        question=max((question.times[0] - question.asked for question in questions), default=None),
        total=end - began,
    )


def _felt_stream(stream: Client, began: float, read: float) -> FeltStream:
    pauses = stream.pauses(began)
    return FeltStream(
        pause=max((seconds for _, seconds in pauses), default=None),
        before=stream.rate(stream.times[0], began),
        during=stream.rate(began, read),
        after=stream.rate(read, stream.times[-1]),
        pauses=tuple((at - began, seconds) for at, seconds in pauses),
    )
