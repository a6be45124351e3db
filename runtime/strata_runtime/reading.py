"""Reading tokens through the model into the engine's one KV cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, cast

import torch

from strata_runtime.drafts.drafter import Drafter
from strata_runtime.errors import NotFiniteError, StallError, UserError
from strata_runtime.hybrid.placement import ExpertProfile
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.sampling import Row

if TYPE_CHECKING:
    from strata_runtime.model import Model

_CLOSED = "the engine is closed: load it again"


class Reader:
    """A model and one cache of `context` tokens, which belongs to one owner at a time: the last that began.

    Tokens are read in passes of at most `chunk`.
    """

    def __init__(self, model: Model, context: int, chunk: int) -> None:
        self.context = context
        self._model = model
        self._chunk = chunk
        self._cache = model.new_cache(context)
        self._owner: object = None
        self._is_open = True
        self._process = os.getpid()  # the workers do not survive fork()

    @property
    def cache_bytes(self) -> int:
        """Memory of the whole cache."""
        return self._cache.bytes

    @property
    def phases(self) -> WindowPhases | None:
        """Where the time of windows went so far; None unless `verify.profile` is on."""
        return self._model.phases

    def read(self, owner: object, ids: Sequence[int], drafter: Drafter, progress: Progress | None = None) -> Row:
        """Begin the owner's text with one or more `ids`; return the last one's logits, float32 [vocab].

        Raises `UserError` when the engine is closed and in a forked process.
        """
        for start in range(0, len(ids), self._chunk):
            if progress is not None:
                progress(start, len(ids))
            chunk = ids[start : start + self._chunk]
            states = self._states(len(chunk), drafter.wants_states)
            rows = self._forward(owner, start, chunk, "last", states)
            drafter.seen(start, chunk, states)
        if progress is not None:
            progress(len(ids), len(ids))
        return cast(Row, rows[0])

    def window(self, owner: object, at: int, ids: Sequence[int], wants_states: bool) -> tuple[Row, torch.Tensor | None]:
        """Read a token of the owner's text at position `at` and drafts behind it, and forget what was behind `at`.

        Returns logits of each, float32 [n, vocab], and states [n, hidden_size] when they are wanted. Without the drafts
        (n = 1) when the network's output for them is not finite: they may never become part of the text.

        Raises `UserError` as `read` does, when another owner began meanwhile, and when the window came to no end.
        """
        states = self._states(len(ids), wants_states)
        try:
            return self._forward(owner, at, ids, "all", states, window=True), states
        except NotFiniteError:
            if len(ids) == 1:
                raise
        return self.window(owner, at, ids[:1], wants_states)

    def rows(self, owner: object, ids: Sequence[int], width: int | None = None) -> Iterator[Row]:
        """Read a whole text; yield the logits of every token, float32 [n, vocab], pass by pass.

        `width`: tokens of a window, which each pass is then; unless given, passes are a prompt's.
        """
        step = width or self._chunk
        for start in range(0, len(ids), step):
            yield self._forward(owner, start, ids[start : start + step], "all", None, window=width is not None)

    def profile(self, owner: object, texts: Sequence[Sequence[int]], progress: Progress | None = None) -> ExpertProfile:
        """Read texts, and count the experts that were chosen."""
        total, tokens = sum(map(len, texts)), 0
        with self._model.counting() as counts:
            for ids in texts:
                for start in range(0, len(ids), self._chunk):
                    chunk = ids[start : start + self._chunk]
                    self._forward(owner, start, chunk, "last", None)
                    tokens += len(chunk)
                    if progress is not None:
                        progress(tokens, total)
        return ExpertProfile(tokens, counts)

    def require(self, owner: object) -> None:
        """Raise `UserError` unless the cache still is the owner's."""
        if self._owner is not owner:
            raise UserError("this generation cannot go on: another one began on the same engine")

    def close(self) -> None:
        """Free the model. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._model.close()

    def _states(self, tokens: int, wanted: bool) -> torch.Tensor | None:
        return self._model.new_states(tokens) if wanted else None

    def _forward(
        self,
        owner: object,
        at: int,
        ids: Sequence[int],
        logits: Literal["last", "all"],
        states: torch.Tensor | None,
        *,
        window: bool = False,
    ) -> Row:
        if not self._is_open:
            raise UserError(_CLOSED)
        if os.getpid() != self._process:
            raise UserError("the engine was loaded before fork(): load another one in the child process")
        if at == 0:
            self._owner = owner
        self.require(owner)
        self._cache.truncate(at)
        try:
            rows = self._model.forward(torch.tensor(ids), self._cache, logits=logits, states=states, window=window)
        except (RuntimeError, StallError):
            if self._is_open:
                raise
            raise UserError(_CLOSED) from None  # by another thread, in the middle of the pass
        return cast(Row, rows.numpy())
