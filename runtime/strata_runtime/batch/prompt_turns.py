"""Whose prompt is read when, and where: between windows, or on a thread beside them."""

from __future__ import annotations

import logging
from collections.abc import Callable

from strata_runtime.batch.beside import Beside, message_of
from strata_runtime.batch.desk import Desk
from strata_runtime.batch.job import Job
from strata_runtime.batch.prompts import PromptReader
from strata_runtime.batch.slots import Slot
from strata_runtime.batch.turns import next_read
from strata_runtime.errors import StallError
from strata_runtime.layers.lanes import WINDOWS
from strata_runtime.model import Model

LOG = logging.getLogger("strata_runtime")

_CLOSING_S = 10.0


class PromptTurns:
    """Reads the prompts of slots. For the batch's thread."""

    def __init__(
        self, model: Model, desk: Desk, prompts: PromptReader, piece: int, give_way: int | None, patience: float
    ) -> None:
        """piece: tokens that are read at a time between windows, 0 for all there are. give_way: see `next_read`.

        patience: seconds that a layer of a prompt beside windows may take.
        """
        self._model, self._desk, self._prompts = model, desk, prompts
        self._piece, self._give_way, self._patience = piece, give_way, patience
        self._last: Job | None = None  # whose prompt was read last
        self._beside: Beside | None = None
        self._lane = WINDOWS
        self._wake: Callable[[], None] = _nothing

    def begin_beside(self, wake: Callable[[], None]) -> None:
        """Read on a thread beside windows from now on. `wake` is called there when a read has ended.

        Where there is no memory for it, say, prompts are read between windows, and a line tells so.
        """
        self._wake = wake
        self._lane += 1
        unused = None if self._model.is_on_pool else next(slot.cache for slot in self._desk.slots if slot.job is None)
        try:
            self._beside = Beside(self._prompts, self._model, self._lane, wake, unused)
        except Exception as problem:  # noqa: BLE001  (whatever it is, prompts can be read without it)
            self._beside = None
            LOG.warning("piped.concurrent is off: %s", message_of(problem))

    def close(self) -> None:
        """End the thread."""
        if self._beside is not None:
            self._beside.close(_CLOSING_S)

    @property
    def reading(self) -> Job | None:
        """Whose prompt is being read, or was last. For any thread."""
        read = None if self._beside is None else self._beside.read
        return self._last if read is None else read.job

    @property
    def is_beside(self) -> bool:
        """Whether a prompt is being read beside windows."""
        return self._beside is not None and self._beside.read is not None

    def has(self, slot: Slot) -> bool:
        """Whether a prompt is being read into this slot beside windows: it is not to be touched."""
        read = None if self._beside is None else self._beside.read
        return read is not None and read.slot is slot

    @property
    def pending(self) -> list[Job]:
        """Those whose prompts are to be read, in the order of their admission."""
        jobs = (slot.job for slot in self._desk.slots)
        waiting = [job for job in jobs if job is not None and job.ended is None and job.rest > 0]
        return sorted(waiting, key=lambda job: job.number)

    def drop_cancelled(self) -> None:
        """End requests that are not wanted any more; what is being read is freed behind its pass."""
        self._desk.drop_cancelled()
        for slot in self._desk.slots:
            job = slot.job
            if job is not None and job.is_cancelled and job.ended is None:
                if self.has(slot):
                    self.stop()
                self._desk.cancel(slot, leaves=not self.has(slot))

    def stop(self) -> None:
        """Let what is being read beside windows, if anything is, end behind its pass."""
        if self._beside is not None:
            self._beside.stop()

    def turn(self) -> None:
        """Read what is due before the next window, or see to it that somebody does."""
        if self._beside is None:
            self._read_between()
        else:
            self._collect(self._beside)
            self._see_to(self._beside)

    def _read_between(self) -> None:
        left = self._piece
        while job := next_read(self._last, self.pending, self._give_way):
            self._turn_to(job)
            left -= self._prompts.next_tokens(job)
            self._read_pass(job)
            if self._piece and left <= 0:
                return
            self.drop_cancelled()
            self._desk.admit()

    def _see_to(self, beside: Beside) -> None:
        """Start the next read beside windows, or let the one that is going on give way."""
        for job in [job for job in self.pending if self._prompts.fits_window(job) and not self._is_read(job)]:
            self._read_pass(job)
        read = beside.read
        due = next_read(self._last if read is None else read.job, self.pending, self._give_way)
        if read is not None and beside.is_stuck(self._patience):
            self._give_up(beside, read.slot)
        elif due is None or (read is not None and (read.stops or read.job is due)):
            return
        else:
            self._turn_to(due)
            if read is not None:
                beside.stop()
                return
            self._desk.counter.add(concurrent_reads=not due.is_beside)
            beside.start(self._slot_of(due), due)

    def _collect(self, beside: Beside) -> None:
        read = beside.collect()
        if read is None:
            return
        if read.job.ended is not None:
            self._desk.leave(read.slot, keeps=read.problem is None)
        elif read.problem is not None:
            self._desk.fail(read.slot, read.problem)
        elif read.job.rest == 0:
            self._desk.draw(read.slot)

    def _give_up(self, beside: Beside, slot: Slot) -> None:
        """Leave a read behind that does not come to its end, with its thread and the slot.

        What it may still write goes to that slot and its cache, which nobody looks at any more.
        """
        beside.close(0.0)
        self._desk.fail(slot, StallError(f"no layer of the prompt was read within {self._patience:g} seconds"))
        self._desk.slots[slot.number] = Slot(slot.number, self._model.new_cache(slot.cache.capacity))
        self.begin_beside(self._wake)

    def _is_read(self, job: Job) -> bool:
        return self.is_beside and self.reading is job

    def _slot_of(self, job: Job) -> Slot:
        return next(slot for slot in self._desk.slots if slot.job is job)

    def _turn_to(self, job: Job) -> None:
        """Note whose prompt is read; another one that is not yet read lets it go first."""
        before, self._last = self._last, job
        if before is not None and before is not job and before.ended is None and before.rest > 0:
            before.let_first += job.rest
            self._desk.counter.add(give_ways=1)

    def _read_pass(self, job: Job) -> None:
        slot = self._slot_of(job)
        try:
            self._prompts.read(slot, job)
        except Exception as problem:  # noqa: BLE001  (it ends these requests alone)
            self._desk.fail(slot, problem)
            return
        if job.rest == 0:
            self._desk.draw(slot)


def _nothing() -> None:
    """Wake nobody."""
