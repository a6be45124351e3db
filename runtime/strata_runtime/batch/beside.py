"""The thread that reads prompts while windows go on."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from time import monotonic

from strata_runtime.batch.job import Job
from strata_runtime.batch.prompts import PromptReader
from strata_runtime.batch.slots import Slot
from strata_runtime.errors import UserError
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.model import Model


@dataclass(eq=False, slots=True)
class Read:
    """One stretch of reading: until the prompt has no pass left that is wider than a window, or `stops` is set.

    `problem`: what ended it, if something did.
    """

    slot: Slot
    job: Job
    stops: bool = False
    has_ended: bool = False
    problem: Exception | None = None


class Beside:
    """Reads prompts on a thread and a lane of its own, one at a time."""

    def __init__(
        self, prompts: PromptReader, model: Model, lane: int, on_end: Callable[[], None], unused: KVCache | None
    ) -> None:
        """`on_end` is called on the thread when a read has ended.

        unused: an empty cache, with which everything is made that reads on a device need, before this returns: they
        may neither allocate nor load anything while windows wait for a host half. None where layers are on the pool.
        Raises what that raises; the thread has ended then.
        """
        self.read: Read | None = None
        self._prompts, self._model, self._on_end = prompts, model, on_end
        self._reads: SimpleQueue[Read | None] = SimpleQueue()
        self._seen = (0, monotonic())
        self._is_ready = threading.Event()
        self._unready: Exception | None = None
        self._thread = threading.Thread(target=self._run, args=(lane, unused), name=f"strata-read-{lane}", daemon=True)
        self._thread.start()
        self._is_ready.wait()
        if self._unready is not None:
            raise self._unready

    def start(self, slot: Slot, job: Job) -> None:
        """Begin, or go on, to read a job's prompt; the reader must be idle."""
        assert self.read is None
        self._model.settle()  # the begin of the prompt may be on its way into the slot's cache, on this thread's lane
        job.is_beside = True
        self.read = Read(slot, job)
        self._seen = (self._model.layers_passed, monotonic())
        self._reads.put(self.read)

    def stop(self) -> None:
        """Let the read, if there is one, end behind its next pass."""
        if self.read is not None:
            self.read.stops = True

    def collect(self) -> Read | None:
        """Return the read if it has ended; the reader is idle then."""
        read = self.read
        if read is None or not read.has_ended:
            return None
        self.read = None
        return read

    def is_stuck(self, seconds: float) -> bool:
        """Whether no layer has ended for so long."""
        layers, since = self._seen
        if self.read is None or layers != self._model.layers_passed:
            self._seen = (self._model.layers_passed, monotonic())
            return False
        return monotonic() - since > seconds

    def close(self, seconds: float) -> None:
        """End the thread behind the pass it is at; one that takes longer is left behind."""
        self.stop()
        self._reads.put(None)
        self._thread.join(seconds)

    def _run(self, lane: int, unused: KVCache | None) -> None:
        keep_off(self._model.worker_cpus)
        with self._model.working(lane):
            try:
                if unused is not None:
                    self._prompts.warm_up(unused)
            except Exception as problem:  # noqa: BLE001  (whoever made this thread is told)
                self._unready = problem
                return
            finally:
                self._is_ready.set()
            while (read := self._reads.get()) is not None:
                try:
                    self._passes(read)
                except Exception as problem:  # noqa: BLE001  (whatever it is, it ends this read alone)
                    read.problem = problem
                read.has_ended = True
                self._on_end()

    def _passes(self, read: Read) -> None:
        try:
            while not (read.stops or self._prompts.fits_window(read.job)):
                self._prompts.read(read.slot, read.job)
        finally:
            self._model.settle()  # whoever gets the slot next works on another lane


def keep_off(workers: frozenset[int]) -> None:
    """Let the calling thread use the CPUs of the process, without those that workers are pinned to where others are.

    A thread inherits the mask of the one that made it, which may be a single core's.
    """
    allowed = os.sched_getaffinity(os.getpid())
    os.sched_setaffinity(0, allowed - workers or allowed)


def message_of(problem: Exception) -> str:
    """What is said of a problem that ended a request."""
    return str(problem) if isinstance(problem, UserError) else f"{type(problem).__name__}: {problem}"
