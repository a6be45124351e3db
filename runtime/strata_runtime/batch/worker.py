"""What a batch does on its thread, turn by turn: requests in and out, prompts, one window."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic, perf_counter
from typing import TYPE_CHECKING

from strata_runtime.batch.desk import Desk
from strata_runtime.batch.job import Job
from strata_runtime.batch.joint import JointWindow, Widths
from strata_runtime.batch.prefixes import Prefixes
from strata_runtime.batch.prompt_turns import PromptTurns
from strata_runtime.batch.prompts import PromptReader
from strata_runtime.batch.slots import Slot
from strata_runtime.batch.status import Status
from strata_runtime.engine import Engine
from strata_runtime.layers.lanes import WINDOWS

if TYPE_CHECKING:
    from strata_runtime._settings import Settings

_PATIENCE = 6
"""Times `verify.timeout` that a layer of a prompt may take."""

_WATCH_S = 0.5


class Worker:
    """Slots, and the turns of those who have them. For the batch's thread, but for what says otherwise."""

    def __init__(self, engine: Engine, settings: Settings, arrived: deque[Job], wake: Callable[[], None]) -> None:
        """`settings`: hold for slots and prompts, whatever the engine's are.

        `arrived`: takes requests from other threads. `wake`: ends the wait between turns. For any thread.

        Raises `UserError` when the engine's model is not to be had, or there is no memory for the slots' caches.
        """
        self._engine, self._wake = engine, wake
        self._model, cache = engine.reader.lend()
        try:
            caches = [cache, *(self._model.new_cache(engine.context) for _ in range(settings.batch.slots - 1))]
        except BaseException:
            engine.reader.take_back()
            raise
        chunk, piece = settings.engine.prompt_chunk, settings.piped.piece
        prompts = PromptReader(self._model, min(chunk, piece) if piece else chunk)
        prefixes = Prefixes(settings.batch.prefix, prompts.chunk, settings.batch.prefix_mib << 20)
        self._desk = Desk(engine, [Slot(number, each) for number, each in enumerate(caches)], arrived, prefixes)
        self._is_concurrent = settings.piped.concurrent
        self._for_reads = 1 / settings.piped.stream_share - 1  # of a window's seconds, before the next one
        give_way = settings.piped.give_way if self._is_concurrent or piece else None
        patience = _PATIENCE * settings.verify.timeout * 1e-9
        self._prompts = PromptTurns(self._model, self._desk, prompts, piece, give_way, patience)
        self._rows = min(self._model.most_rows, settings.window.max_tokens)
        self._widths = Widths(settings, engine.width, self._rows)
        self._is_closing = False
        self._first = 0  # slot that the next window begins with, where not all fit into one

    @contextmanager
    def working(self) -> Iterator[None]:
        """Go around all turns."""
        with self._model.working(WINDOWS):
            if self._is_concurrent:
                self._prompts.begin_beside(self._wake)
            try:
                yield
            finally:
                self._prompts.close()

    def close(self) -> None:
        """Give the model back, once the turns have ended. For any thread."""
        self._engine.reader.take_back()

    @property
    def free_slots(self) -> int:
        """Slots without a request. For any thread."""
        return len(self._desk.free)

    @property
    def is_idle(self) -> bool:
        """Whether no slot has a request. For any thread."""
        return self.free_slots == len(self._desk.slots)

    def turn(self) -> float | None:
        """Do what is to be done; return for how many seconds there is nothing, None: until there is news."""
        self._prompts.drop_cancelled()
        self._desk.admit()
        self._prompts.turn()
        ready = [slot for slot in self._desk.slots if slot.is_decoding and not self._prompts.has(slot)]
        began = perf_counter()
        if ready:
            self._window(self._in_turn(ready))
        return self._pause(perf_counter() - began if ready else None)

    def refuse_waiting(self) -> None:
        """End the requests for which no slot is free."""
        if not self._is_closing:
            self._is_closing = True
            self._desk.admit()
        self._desk.refuse()

    def cancel_all(self) -> None:
        """End the requests in slots, with the next turn."""
        for slot in self._desk.slots:
            if slot.job is not None:
                slot.job.is_cancelled = True

    def fail_all(self, problem: Exception) -> None:
        """End the requests in slots."""
        self._prompts.stop()
        for slot in self._desk.slots:
            if slot.job is not None and slot.job.ended is None:
                self._desk.fail(slot, problem, leaves=not self._prompts.has(slot))

    def status(self) -> Status:
        """Say how it is. For any thread."""
        counter, phases = self._desk.counter, self._model.phases
        return Status(
            slots=tuple(slot.status(self._prompts.reading) for slot in self._desk.slots),
            queued=self._desk.waiting,
            totals=counter.totals,
            tokens_per_second=counter.rate,
            acceptance=counter.accepted / counter.drafted if counter.drafted else 0.0,
            phases={} if phases is None else {str(name): seconds for name, seconds in phases.seconds().items()},
            expert_hits=self._model.expert_hits,
            uptime_s=monotonic() - counter.began,
        )

    def _in_turn(self, ready: list[Slot]) -> list[Slot]:
        """Return as many as a window has rows: those that have waited for longest."""
        if len(ready) <= self._rows:
            return ready
        at = next((index for index, slot in enumerate(ready) if slot.number >= self._first), 0)
        chosen = [*ready[at:], *ready[:at]][: self._rows]
        self._first = chosen[-1].number + 1
        return chosen

    def _window(self, slots: list[Slot]) -> None:
        window = JointWindow(self._model, self._widths.of(len(slots)))
        for slot in slots:
            try:
                window.add(slot)
            except Exception as problem:  # noqa: BLE001  (it ends these requests alone)
                self._desk.fail(slot, problem)
        if not window.slots:
            return
        try:
            with self._model.going_first() if self._prompts.is_beside else nullcontext():
                failed = dict(window.read())
        except Exception as problem:  # noqa: BLE001  (it ends these requests alone)
            failed = dict.fromkeys(window.slots, problem)
        else:
            self._desk.counter.add(windows=1)
        for slot in window.slots:
            if slot in failed:
                self._desk.fail(slot, failed[slot])
            else:
                self._desk.draw(slot)

    def _pause(self, window_s: float | None) -> float | None:
        if self._prompts.is_beside:
            if window_s is None:
                return _WATCH_S
            return self._for_reads * window_s if self._model.is_on_pool else 0.0
        is_busy = window_s is not None or self._prompts.pending or (self._desk.waiting and self.free_slots)
        return 0.0 if is_busy else None
