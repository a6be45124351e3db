"""Doubles for tests of the server: a batch whose requests go by a script, and a server in a thread."""

from __future__ import annotations

import io
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import uvicorn

from strata_runtime.batch.batch import QueueFull
from strata_runtime.batch.events import Event, Failure, Listener, TokenLogprobs
from strata_runtime.batch.status import RequestUsage, SlotStatus, Status, Totals
from strata_runtime.params import SamplingParams
from strata_runtime.serve.journal import Journal
from strata_runtime.serve.options import ServeOptions
from strata_runtime.serve.server import configured, listen, reserve, url
from strata_runtime.serve.service import Service
from strata_runtime.text.stream import TextStream

Step = int | float | Failure | threading.Event
"""A token; seconds to wait; the end of the request; something to wait for."""


@dataclass(frozen=True)
class Submitted:
    """What a request asked of the batch."""

    ids: tuple[int, ...]
    sampling: SamplingParams
    max_tokens: int
    stop: tuple[str, ...]
    ignore_eos: bool
    logprobs: int | None


Script = Callable[[Submitted], Iterator[Step]]


class FakeTicket:
    def __init__(self, number: int, prompt_tokens: int):
        self.id = number
        self.prompt_tokens = prompt_tokens
        self.completion_tokens = 0
        self.cancelled = threading.Event()
        self.over = threading.Event()

    def cancel(self) -> None:
        self.cancelled.set()

    @property
    def usage(self) -> RequestUsage:
        return RequestUsage(self.prompt_tokens, 1, self.completion_tokens, 0.25, 0.5, 2.0, 0.0)


class FakeBatch:
    """Runs every request on a thread of its own, as `script` says, through the real stream of text."""

    def __init__(self, engine, script: Script, places: int = 1000):
        self.engine, self.script, self.places = engine, script, places
        self.submitted: list[Submitted] = []
        self.tickets: list[FakeTicket] = []
        self.closed_with: list[float] = []
        self.phases: dict[str, float] = {}
        self.expert_hits: tuple[int, int] | None = None

    def forget(self) -> None:
        """Forget the requests of another test."""
        for ticket in self.tickets:
            ticket.cancel()
        self.submitted.clear()
        self.tickets.clear()
        self.phases, self.expert_hits = {}, None

    def submit(
        self,
        ids: Sequence[int],
        sampling: SamplingParams,
        *,
        max_tokens: int,
        stop: Sequence[str] = (),
        ignore_eos: bool = False,
        logprobs: int | None = None,
        listener: Listener,
    ) -> FakeTicket:
        if len(self.running) >= self.places:
            raise QueueFull(f"{self.places} requests wait already: try again later")
        request = Submitted(tuple(ids), sampling, max_tokens, tuple(stop), ignore_eos, logprobs)
        ticket = FakeTicket(len(self.tickets), len(ids))
        self.submitted.append(request)
        self.tickets.append(ticket)
        threading.Thread(target=self._run, args=(request, ticket, listener), daemon=True).start()
        return ticket

    @property
    def running(self) -> list[FakeTicket]:
        return [ticket for ticket in self.tickets if not ticket.over.is_set()]

    def status(self) -> Status:
        slots = tuple(SlotStatus("decoding", ticket.id, 3, 10) for ticket in self.running[:4])
        free = (SlotStatus("free", None, 0, 0),) * (4 - len(slots))
        totals = Totals(len(self.tickets), len(self.tickets) - len(self.running), windows=7)
        return Status(slots + free, 2, totals, 123.5, 0.75, self.phases, self.expert_hits, 60.0)

    def close(self, drain_s: float = 0.0) -> None:
        self.closed_with.append(drain_s)
        for ticket in self.running:
            ticket.over.wait(drain_s)
            ticket.cancel()

    def _run(self, request: Submitted, ticket: FakeTicket, listener: Listener) -> None:
        for event in self._events(request, ticket):
            if isinstance(event, Failure) or event.finish:
                ticket.over.set()
            listener(event)

    def _events(self, request: Submitted, ticket: FakeTicket) -> Iterator[Event | Failure]:
        stream = TextStream(self.engine.tokenizer, request.stop)
        for step in self.script(request):
            if isinstance(step, Failure):
                yield step
                return
            if isinstance(step, float):
                ticket.cancelled.wait(step)
            elif isinstance(step, threading.Event):
                while not (step.wait(0.005) or ticket.cancelled.is_set()):
                    pass
            if ticket.cancelled.is_set():
                yield Event(stream.finish()[0], None, None, "cancelled")
                return
            if isinstance(step, int):
                ticket.completion_tokens += 1
                text, stopped = stream.push(step)
                is_last = ticket.completion_tokens == request.max_tokens
                if is_last and not stopped:
                    text += stream.finish()[0]
                finish = "stop" if stopped else "length" if is_last else None
                yield Event(text, step, self._logprobs(step, request.logprobs), finish)
                if finish:
                    return
        ticket.completion_tokens += 1
        yield Event(stream.finish()[0], 0, self._logprobs(0, request.logprobs), "stop")

    @staticmethod
    def _logprobs(token: int, most: int | None) -> TokenLogprobs | None:
        if most is None:
            return None
        return TokenLogprobs(token, -0.5, tuple((token + at, -0.5 - at) for at in range(most)))


def saying(engine, text: str, *, repeat: bool = False, pause: float = 0.0) -> Script:
    """A script that says a text, once or for ever, and waits before each token."""

    def script(_: Submitted) -> Iterator[Step]:
        ids = engine.tokenizer.encode(text)
        for token in itertools.cycle(ids) if repeat else ids:
            if pause:
                yield pause
            yield token

    return script


@dataclass
class Running:
    """A server in a thread. `lines`: what its journal said so far."""

    url: str
    batch: FakeBatch
    service: Service
    server: uvicorn.Server
    log: io.StringIO = field(default_factory=io.StringIO)

    @property
    def lines(self) -> list[dict]:
        return [json.loads(line) for line in self.log.getvalue().splitlines()]

    def line_of(self, name: str) -> dict:
        """The line of one request, which may come a little later than its answer."""
        until(lambda: any(line.get("id") == name for line in self.lines))
        (line,) = [line for line in self.lines if line.get("id") == name]
        return line


@contextmanager
def running(engine, batch: FakeBatch, host: str = "127.0.0.1", **options) -> Iterator[Running]:
    """Serve a batch on a free port."""
    log = io.StringIO()
    journal = Journal(as_json=True, stream=log)
    service = Service(engine, batch, ServeOptions(**options), journal, engine.tokenizer)
    server = uvicorn.Server(configured(service))
    with reserve(host, 0) as opened:
        listen(opened)
        where = url(opened)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
        thread.start()
        try:
            yield Running(where, batch, service, server, log)
        finally:
            server.should_exit = server.force_exit = True
            batch.close()
            thread.join(10)


CHAT = "/v1/chat/completions"
TEXT = "/v1/completions"


def hello(**more) -> dict:
    """The body of a chat."""
    return {"messages": [{"role": "user", "content": "Hello"}], **more}


def chunks(response) -> list[dict]:
    """The chunks of a stream, read to its end, which must be the one that ends streams."""
    events = [line.removeprefix("data: ") for line in response.iter_lines() if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    return [json.loads(event) for event in events[:-1]]


def until(holds: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until something holds. Fails when it does not."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)
