"""Where requests come in and go out: slots, what their listeners are told, and what is counted."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Sequence
from time import perf_counter

from strata_runtime.batch.beside import message_of
from strata_runtime.batch.events import Event, Failure
from strata_runtime.batch.job import Job
from strata_runtime.batch.logprobs import logprobs_of
from strata_runtime.batch.prefixes import Prefixes
from strata_runtime.batch.slots import Slot
from strata_runtime.batch.totals import Counter
from strata_runtime.engine import Engine
from strata_runtime.errors import UserError

LOG = logging.getLogger("strata_runtime")


class Desk:
    """Brings requests into slots and out of them. For the batch's thread."""

    def __init__(self, engine: Engine, slots: Sequence[Slot], arrived: deque[Job], prefixes: Prefixes) -> None:
        """`arrived`: takes requests from other threads."""
        self.slots = list(slots)
        self.counter = Counter()
        self._engine, self._arrived, self._prefixes = engine, arrived, prefixes
        self._freed = 0

    @property
    def waiting(self) -> int:
        """Requests without a slot."""
        return len(self._arrived)

    @property
    def free(self) -> list[Slot]:
        """Slots without a request."""
        return [slot for slot in self.slots if slot.job is None]

    def admit(self) -> None:
        """Give free slots to those that wait, in their order."""
        while self._arrived and (free := self.free):
            job = self._arrived.popleft()
            self._count(job)
            if job.is_cancelled:
                self._cancel(job)
                continue
            try:
                job.decoding = self._engine.decoding(job.request)
                self._place(job, free)
            except Exception as problem:  # noqa: BLE001  (it ends these requests alone)
                self._tell_failure(job, problem)

    def _place(self, job: Job, free: Sequence[Slot]) -> None:
        assert job.decoding is not None
        found = self._prefixes.find(job.request.ids, self.slots)
        # The one whose begin is taken over, if little else is lost with it, or the one that has been free for longest.
        held = [slot for slot in free if found is not None and found.source is slot and self._prefixes.spares(found)]
        slot = held[0] if held else min(free, key=lambda each: each.used)
        if not held:
            self._prefixes.keep(slot)
        if found is None:
            slot.hold((), 0)
            slot.cache.truncate(0)
        else:
            self._prefixes.take(found, slot)
            job.at = job.cached = found.tokens
            if not job.decoding.drafter.wants_states:
                job.decoding.drafter.seen(0, job.request.ids[: found.tokens], None)
        self.counter.add(cached_tokens=job.cached)
        job.admitted = perf_counter()
        slot.job = job

    def draw(self, slot: Slot) -> None:
        """Draw what a slot's text has logits for."""
        job = slot.job
        assert job is not None and job.decoding is not None
        decoding = job.decoding
        while decoding.finish is None and not decoding.is_waiting and not job.is_cancelled:
            row = None if job.logprobs is None else decoding.row
            try:
                chunk = decoding.step()
            except Exception as problem:  # noqa: BLE001  (it ends these requests alone)
                self.fail(slot, problem)
                return
            token, told = chunk.token_id, None
            job.first = job.first or perf_counter()
            if token is not None:
                self.counter.drew(1)
                self.counter.add(generated_tokens=1)
                told = None if row is None or job.logprobs is None else logprobs_of(row, token, job.logprobs)
            if chunk.finish is not None:
                self._end(job)
                self.counter.add(finished=1)
            self._tell(job, Event(chunk.text, token, told, chunk.finish))
        if decoding.finish is not None:
            self.leave(slot)

    def cancel(self, slot: Slot, *, leaves: bool) -> None:
        """End a slot's request on its own demand. `leaves`: nobody reads into the slot's cache any more."""
        assert slot.job is not None
        self._cancel(slot.job)
        if leaves:
            self.leave(slot)

    def fail(self, slot: Slot, problem: Exception, *, leaves: bool = True) -> None:
        """End a slot's request for a reason; what is in its cache counts for nothing."""
        assert slot.job is not None
        self._tell_failure(slot.job, problem)
        slot.hold((), 0)
        if leaves:
            self.leave(slot, keeps=False)

    def refuse(self) -> None:
        """End those that wait."""
        while self._arrived:
            job = self._arrived.popleft()
            self._count(job)
            self._cancel(job)

    def drop_cancelled(self) -> None:
        """End those that wait and do not want to any more."""
        for job in [job for job in tuple(self._arrived) if job.is_cancelled]:
            self._arrived.remove(job)
            self._count(job)
            self._cancel(job)

    def leave(self, slot: Slot, *, keeps: bool = True) -> None:
        """Free a slot. `keeps`: what is in its cache may be of use to another prompt."""
        job = slot.job
        assert job is not None
        drawn = [] if job.decoding is None else job.decoding.token_ids[:-1]
        if keeps and drawn:
            slot.hold([*job.request.ids, *drawn], slot.exact)
        slot.job = None
        job.settle()
        self._freed += 1
        slot.used = self._freed

    def _count(self, job: Job) -> None:
        self.counter.add(requests=1, prompt_tokens=len(job.request.ids))

    def _cancel(self, job: Job) -> None:
        text = "" if job.decoding is None else job.decoding.close()
        self._end(job)
        self.counter.add(cancelled=1)
        self._tell(job, Event(text, None, None, "cancelled"))

    def _tell_failure(self, job: Job, problem: Exception) -> None:
        if not isinstance(problem, UserError):
            LOG.error("request %d failed", job.number, exc_info=problem)
        if job.decoding is not None:
            job.decoding.close()
        self._end(job)
        self.counter.add(failed=1)
        self._tell(job, Failure(message_of(problem)))

    def _end(self, job: Job) -> None:
        job.ended = perf_counter()
        if job.decoding is not None:
            acceptance = job.decoding.acceptance
            self.counter.drafted += acceptance.drafted
            self.counter.accepted += acceptance.accepted

    def _tell(self, job: Job, what: Event | Failure) -> None:
        try:
            job.listener(what)
        except Exception:
            LOG.exception("the listener of request %d failed: the request is cancelled", job.number)
            job.is_cancelled = True
