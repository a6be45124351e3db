"""The generate loop: prompt read, then token by token."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

from strata_runtime.drafts.drafter import Drafter
from strata_runtime.drafts.width import Width
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.reading import Reader
from strata_runtime.request import Chunk, FinishReason, GenerationResult, Request, Timing, Usage
from strata_runtime.sampling import Row, Sampler
from strata_runtime.text.stream import TextStream
from strata_runtime.windows import Windows


class Generation(Iterator[Chunk]):
    """A running generation: iterate for chunks; `result` holds what there is so far.

    The prompt is read with the first step. At most one generation of an engine is running: when another one takes its
    first step, this one cannot go on, and says so with a `UserError`.
    """

    def __init__(
        self,
        request: Request,
        reader: Reader,
        stream: TextStream,
        drafter: Drafter,
        width: Width,
        *,
        vocab_size: int,
        load_s: float,
        progress: Progress | None,
    ) -> None:
        """`drafter`: a fresh one, for this text alone; `width` may know others. Both change nothing but the time."""
        self.request = request
        self._stream = stream
        self._sampler = Sampler(request.sampling, vocab_size, request.ids)
        self._windows = Windows(reader, request.ids, drafter, width, self._sampler.best)
        self._limit = min(request.max_tokens, reader.context - len(request.ids))
        self._progress = progress
        self._token_ids: list[int] = []
        self._texts: list[str] = []
        self._finish: FinishReason | None = None
        self._load_s, self._prompt_s, self._decode_s = load_s, 0.0, 0.0
        self._reader = reader
        self._phases_before = WindowPhases()

    def __next__(self) -> Chunk:
        """Make one step. Raises `UserError` when the model's output is not finite."""
        if self._finish is not None:
            raise StopIteration
        started = perf_counter()
        if not self._token_ids:
            self._phases_before = self._reader.phases or WindowPhases()
        try:
            chunk = self._step(self._windows.row(self._limit - len(self._token_ids), self._progress))
        except BaseException:
            self.close()
            raise
        elapsed = perf_counter() - started
        if len(self._token_ids) > 1:
            self._decode_s += elapsed
        else:
            self._prompt_s = elapsed
        return chunk

    def run(self) -> GenerationResult:
        """Go on to the end and return the result."""
        for _ in self:
            pass
        return self.result

    def close(self) -> None:
        """End here: the finish reason is `cancelled` unless there is one. Idempotent."""
        if self._finish is None:
            text, _ = self._stream.finish()
            self._texts.append(text)
            self._finish = "cancelled"

    @property
    def seed(self) -> int:
        """The seed of the draws, the request's own or the one that was drawn for it."""
        return self._sampler.seed

    @property
    def result(self) -> GenerationResult:
        """What was generated so far."""
        tokens = len(self._token_ids)
        phases = self._reader.phases
        rate = (tokens - 1) / self._decode_s if tokens > 1 and self._decode_s > 0 else 0.0
        return GenerationResult(
            "".join(self._texts),
            tuple(self._token_ids),
            self._finish,
            Usage(len(self.request.ids), tokens),
            Timing(self._load_s, self._prompt_s, self._decode_s, rate),
            self._windows.acceptance,
            self.seed,
            None if phases is None else phases.since(self._phases_before),
        )

    def _step(self, logits: Row) -> Chunk:
        if self._limit == 0:
            self._finish = "length"
            return Chunk("", None, "length")
        token = self._sampler.draw(logits, len(self.request.ids) + len(self._token_ids))
        self._sampler.accept(token)
        self._windows.take(token)
        self._token_ids.append(token)
        ended = token in self.request.end_ids
        text, stopped = ("", False) if ended else self._stream.push(token)
        finish: FinishReason | None = "stop" if stopped else None
        if not stopped and (ended or len(self._token_ids) == self._limit):
            rest, stopped = self._stream.finish()
            text += rest
            finish = "stop" if ended or stopped else "length"
        if text:
            self._texts.append(text)
        self._finish = finish
        return Chunk(text, token, finish)
