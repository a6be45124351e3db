"""Requests in slots: they share windows, and their prompts are read between windows or beside them.

>>> from strata_runtime import Engine, SamplingParams
>>> from strata_runtime.batch import Batch
>>> with Engine.load(MODEL, engine_context=256, batch_slots=2) as engine:
...     batch = Batch(engine)
...     events = []
...     ids = engine.encode("def add(a, b):")
...     ticket = batch.submit(ids, SamplingParams(temperature=0), max_tokens=4, listener=events.append)
...     batch.close(drain_s=60)
>>> events[-1].finish, ticket.usage.completion_tokens
('length', 4)
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from strata_runtime.batch.events import Listener
from strata_runtime.batch.job import Job
from strata_runtime.batch.status import RequestUsage, Status
from strata_runtime.batch.worker import Worker
from strata_runtime.engine import Engine
from strata_runtime.errors import UserError
from strata_runtime.params import SamplingParams

if TYPE_CHECKING:
    from strata_runtime._settings import Settings

LOG = logging.getLogger("strata_runtime")


class QueueFull(UserError):
    """As many requests wait as `batch.queue` allows."""


@dataclass(frozen=True, slots=True, eq=False)
class Ticket:
    """What is kept of a request that was submitted. For any thread."""

    job: Job
    wake: Callable[[], None]

    @property
    def id(self) -> int:
        """Its number in the batch."""
        return self.job.number

    def cancel(self) -> None:
        """End it within one window, or behind the pass that reads its prompt; its last event says `cancelled`."""
        self.job.is_cancelled = True
        self.wake()

    @property
    def usage(self) -> RequestUsage:
        """What it has taken so far."""
        return self.job.usage


class Batch:
    """Works on requests with the engine's model, which nobody else can use meanwhile. For any thread."""

    def __init__(self, engine: Engine, settings: Settings | None = None) -> None:
        """Start its thread; slots, queue and how prompts are read are the engine's settings, unless others are given.

        Raises `UserError` when there is no memory for the slots' caches, or the engine is closed or lent already.
        """
        self._engine = engine
        settings = settings or engine.settings
        self._most = settings.batch.queue
        self._numbers = count(1)
        self._news = threading.Condition()
        self._arrived: deque[Job] = deque()
        self._has_news = self._is_closing = False
        self._deadline = 0.0
        self._closed = threading.Lock()
        self._worker = Worker(engine, settings, self._arrived, self._wake)
        self._thread = threading.Thread(target=self._run, name="strata-batch", daemon=True)
        self._thread.start()

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
    ) -> Ticket:
        """Put a request behind those that wait. ids: as `Engine.encode` returns them.

        logprobs: how many of the most probable tokens are told of with each drawn one; 0 for that one alone, None for
        none. See `Engine.generate` for the rest.

        Raises `UserError` for what does not fit, and once the batch is closed; `QueueFull`.
        """
        request = self._engine.request(ids, sampling, max_tokens=max_tokens, stop=stop, ignore_eos=ignore_eos)
        vocab = self._engine.info.vocab_size
        if logprobs is not None and not 0 <= logprobs <= vocab:
            raise UserError(f"logprobs must be a number of tokens from 0 to {vocab}, not {logprobs!r:.40}")
        with self._news:
            if self._is_closing:
                raise UserError("the batch is closed")
            waiting = len(self._arrived) - self._worker.free_slots
            if waiting >= self._most:
                raise QueueFull(f"{max(0, waiting)} requests wait for a slot, as many as batch.queue allows")
            job = Job(next(self._numbers), request, listener, logprobs, perf_counter())
            self._arrived.append(job)
            self._tell()
        return Ticket(job, self._wake)

    @property
    def accepts(self) -> bool:
        """Whether requests are taken: until it is closed."""
        return not self._is_closing

    def status(self) -> Status:
        """Say how it is."""
        return self._worker.status()

    def close(self, drain_s: float = 0.0) -> None:
        """Let running requests go on for so long, end what is left with `cancelled`, and give the engine back.

        Requests for which no slot is free do not begin. Idempotent.
        """
        with self._news:
            if not self._is_closing:
                self._is_closing, self._deadline = True, monotonic() + drain_s
                self._tell()
        self._thread.join()
        with self._closed:
            self._worker.close()

    def _wake(self) -> None:
        with self._news:
            self._tell()

    def _tell(self) -> None:
        self._has_news = True
        self._news.notify_all()

    def _run(self) -> None:
        with self._worker.working():
            while not self._has_ended():
                try:
                    pause = self._worker.turn()
                except Exception as problem:
                    LOG.exception("a turn of the batch failed")
                    self._worker.fail_all(problem)
                    pause = 0.0
                self._wait(pause)

    def _has_ended(self) -> bool:
        if not self._is_closing:
            return False
        self._worker.refuse_waiting()
        if monotonic() >= self._deadline:
            self._worker.cancel_all()
        return self._worker.is_idle

    def _wait(self, pause: float | None) -> None:
        """Wait for news, at most so many seconds; None: without an end."""
        with self._news:
            if self._is_closing:
                left = max(0.0, self._deadline - monotonic())
                pause = left if pause is None else min(pause, left)
            if pause is None or pause > 0:
                self._news.wait_for(lambda: self._has_news, pause)
            self._has_news = False
