"""The generate loop of one text: prompt read, then token by token."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from strata_runtime.decoding import Decoding
from strata_runtime.drafts.width import Width
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.reading import Reader
from strata_runtime.request import Chunk, GenerationResult, Request, Timing, Usage


class Generation(Iterator[Chunk]):
    """A running generation: iterate for chunks; `result` holds what there is so far.

    The prompt is read with the first step. At most one generation of an engine is running: when another one takes its
    first step, this one cannot go on, and says so with a `UserError`.
    """

    def __init__(
        self, decoding: Decoding, reader: Reader, width: Width, *, load_s: float, progress: Progress | None
    ) -> None:
        """`width` may know other texts. It changes nothing but the time."""
        self._decoding, self._reader, self._width = decoding, reader, width
        self._progress = progress
        self._load_s, self._prompt_s, self._decode_s = load_s, 0.0, 0.0
        self._phases_before = WindowPhases()

    @property
    def request(self) -> Request:
        """What was asked for."""
        return self._decoding.request

    def __next__(self) -> Chunk:
        """Make one step. Raises `UserError` when the model's output is not finite."""
        decoding = self._decoding
        if decoding.finish is not None:
            raise StopIteration
        started = perf_counter()
        is_first = not decoding.token_ids
        try:
            if is_first:
                self._phases_before = self._reader.phases or WindowPhases()
                decoding.begin(self._reader.read(self, self.request.ids, decoding.drafter, self._progress))
            elif decoding.is_waiting:
                self._window()
            chunk = decoding.step()
        except BaseException:
            self.close()
            raise
        elapsed = perf_counter() - started
        if is_first:
            self._prompt_s = elapsed
        else:
            self._decode_s += elapsed
        return chunk

    def _window(self) -> None:
        decoding = self._decoding
        self._reader.require(self)
        proposal = decoding.propose(self._width)
        decoding.give(*self._reader.window(self, proposal.at, proposal.ids, decoding.drafter.wants_states))

    def run(self) -> GenerationResult:
        """Go on to the end and return the result."""
        for _ in self:
            pass
        return self.result

    def close(self) -> None:
        """End here: the finish reason is `cancelled` unless there is one. Idempotent."""
        self._decoding.close()

    @property
    def seed(self) -> int:
        """The seed of the draws, the request's own or the one that was drawn for it."""
        return self._decoding.seed

    @property
    def result(self) -> GenerationResult:
        """What was generated so far."""
        decoding = self._decoding
        tokens = len(decoding.token_ids)
        phases = self._reader.phases
        rate = (tokens - 1) / self._decode_s if tokens > 1 and self._decode_s > 0 else 0.0
        return GenerationResult(
            decoding.text,
            tuple(decoding.token_ids),
            decoding.finish,
            Usage(len(self.request.ids), tokens),
            Timing(self._load_s, self._prompt_s, self._decode_s, rate),
            decoding.acceptance,
            self.seed,
            None if phases is None else phases.since(self._phases_before),
        )
