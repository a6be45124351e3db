"""Reading tokens through the model into the engine's one KV cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, cast

import torch

from strata_runtime.errors import UserError
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

    def read(self, owner: object, at: int, ids: Sequence[int], progress: Progress | None = None) -> Row:
        """Read one or more `ids` at position `at` of the owner's text; return the last one's logits, float32 [vocab].

        Raises `UserError` when the engine is closed, in a forked process, and when `at` is not 0 and another owner
        began meanwhile.
        """
        for start in range(0, len(ids), self._chunk):
            if progress is not None:
                progress(start, len(ids))
            rows = self._forward(owner, at + start, ids[start : start + self._chunk], "last")
        if progress is not None:
            progress(len(ids), len(ids))
        return cast(Row, rows[0])

    def rows(self, owner: object, ids: Sequence[int]) -> Iterator[Row]:
        """Read a whole text; yield the logits of every token, float32 [n, vocab], pass by pass."""
        for start in range(0, len(ids), self._chunk):
            yield self._forward(owner, start, ids[start : start + self._chunk], "all")

    def close(self) -> None:
        """Free the model. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._model.close()

    def _forward(self, owner: object, at: int, ids: Sequence[int], logits: Literal["last", "all"]) -> Row:
        if not self._is_open:
            raise UserError(_CLOSED)
        if os.getpid() != self._process:
            raise UserError("the engine was loaded before fork(): load another one in the child process")
        if at == 0:
            self._owner = owner
            self._cache.truncate(0)
        elif self._owner is not owner:
            raise UserError("this generation cannot go on: another one began on the same engine")
        try:
            rows = self._model.forward(torch.tensor(ids), self._cache, logits=logits)
        except RuntimeError:
            if self._is_open:
                raise
            raise UserError(_CLOSED) from None  # by another thread, in the middle of the pass
        return cast(Row, rows.numpy())
