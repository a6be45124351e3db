"""One text as it is generated: draws, drafts, stops and limits. Who reads its passes, and beside what, is not told."""

from __future__ import annotations

import torch

from strata_runtime.drafts.drafter import Drafter
from strata_runtime.drafts.width import Width
from strata_runtime.layers.outcome import Rows
from strata_runtime.request import Acceptance, Chunk, FinishReason, Request
from strata_runtime.sampling import Row, Sampler
from strata_runtime.text.stream import TextStream
from strata_runtime.windows import Proposal, Windows


class Decoding:
    """The text of one request. `drafter` is to see the prompt as it is read; `begin` comes behind that.

    Then, until there is a `finish`: `step` while no pass is needed, else `propose`, and `give` what was read.
    """

    def __init__(
        self, request: Request, stream: TextStream, drafter: Drafter, *, vocab_size: int, context: int
    ) -> None:
        """`drafter`: a fresh one, for this text alone; it changes nothing but the time. `context`: most positions."""
        self.request, self.drafter = request, drafter
        self.limit = min(request.max_tokens, context - len(request.ids))
        self.token_ids: list[int] = []
        self.finish: FinishReason | None = None
        self._stream = stream
        self._sampler = Sampler(request.sampling, vocab_size, request.ids)
        self._windows = Windows(drafter, self._sampler.best)
        self._texts: list[str] = []

    @property
    def seed(self) -> int:
        """The seed of the draws, the request's own or the one that was drawn for it."""
        return self._sampler.seed

    @property
    def text(self) -> str:
        """What became certain so far."""
        return "".join(self._texts)

    @property
    def acceptance(self) -> Acceptance:
        """How drafts did so far."""
        return self._windows.acceptance

    def begin(self, row: Row) -> None:
        """Take the logits, float32 [vocab], of the prompt's last token."""
        self._windows.begin(len(self.request.ids) - 1, self.request.ids[-1], row)

    @property
    def is_waiting(self) -> bool:
        """Whether the next step needs a pass first."""
        return self._windows.is_waiting

    def propose(self, width: Width) -> Proposal:
        """Return what the next pass is to read of this text. `width` chooses how much, and learns from it."""
        return self._windows.propose(self.limit - len(self.token_ids), width)

    def give(self, rows: Rows, states: torch.Tensor | None) -> None:
        """Take what was read of the first ids of the proposal: see `Windows.give`."""
        self._windows.give(rows, states)

    @property
    def row(self) -> Row:
        """The logits that the next step draws from, float32 [vocab]."""
        return self._windows.row

    def step(self) -> Chunk:
        """Draw one token. Raises `UserError` when the model's output is not finite."""
        if self.limit == 0:
            self.finish = "length"
            return Chunk("", None, "length")
        if self._sampler.takes_best:
            token = self._windows.best
        else:
            token = self._sampler.draw(self.row, len(self.request.ids) + len(self.token_ids))
        self._sampler.accept(token)
        self._windows.take(token)
        self.token_ids.append(token)
        ended = token in self.request.end_ids
        text, stopped = ("", False) if ended else self._stream.push(token)
        finish: FinishReason | None = "stop" if stopped else None
        if not stopped and (ended or len(self.token_ids) == self.limit):
            rest, stopped = self._stream.finish()
            text += rest
            finish = "stop" if ended or stopped else "length"
        if text:
            self._texts.append(text)
        self.finish = finish
        return Chunk(text, token, finish)

    def close(self) -> str:
        """End here: the finish reason is `cancelled` unless there is one. Returns the text that was held back."""
        if self.finish is not None:
            return ""
        text, _ = self._stream.finish()
        self._texts.append(text)
        self.finish = "cancelled"
        return text
