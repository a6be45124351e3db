"""Reading tokens through the model into the engine's one KV cache."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

import torch

from strata_runtime.drafts.drafter import Drafter
from strata_runtime.errors import NotFiniteError, StallError, UserError
from strata_runtime.hybrid.placement import ExpertProfile
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.outcome import Rows
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.sampling import Row

if TYPE_CHECKING:
    from strata_runtime.model import Model

_CLOSED = "the engine is closed: load it again"
_LENT = "a batch works with this engine's model: ask the batch, or close it first"


def read_pass(model: Model, cache: KVCache, at: int, ids: Sequence[int], drafter: Drafter) -> Row:
    """Read tokens of a prompt from position `at` on in one pass; return the last one's logits, float32 [vocab].

    Raises `UserError` when they are not finite.
    """
    cache.truncate(at)
    states = model.new_states(len(ids)) if drafter.wants_states else None
    rows = model.forward(torch.tensor(ids), cache, logits="last", states=states)
    drafter.seen(at, ids, states)
    return cast(Row, rows[0].numpy())


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
        self._is_open, self._is_lent = True, False
        self._process = os.getpid()  # the workers do not survive fork()

    @property
    def cache_bytes(self) -> int:
        """Memory of the whole cache."""
        return self._cache.bytes

    @property
    def phases(self) -> WindowPhases | None:
        """Where the time of windows went so far; None unless `verify.profile` is on."""
        return self._model.phases

    def lend(self) -> tuple[Model, KVCache]:
        """Give model and cache away: whoever owns a text here cannot go on, until `take_back`.

        Raises `UserError` when the engine is closed, in a forked process, and when they are given away already.
        """
        with self._reading(self, 0):
            self._is_lent = True
        return self._model, self._cache

    def take_back(self) -> None:
        """End what `lend` began."""
        self._is_lent = False
        self._owner = None

    def read(self, owner: object, ids: Sequence[int], drafter: Drafter, progress: Progress | None = None) -> Row:
        """Begin the owner's text with one or more `ids`; return the last one's logits, float32 [vocab].

        Raises `UserError` when the engine is closed and in a forked process.
        """
        for start in range(0, len(ids), self._chunk):
            if progress is not None:
                progress(start, len(ids))
            with self._reading(owner, start):
                row = read_pass(self._model, self._cache, start, ids[start : start + self._chunk], drafter)
        if progress is not None:
            progress(len(ids), len(ids))
        return row

    def window(
        self, owner: object, at: int, ids: Sequence[int], wants_states: bool
    ) -> tuple[Rows, torch.Tensor | None]:
        """Read a token of the owner's text at position `at` and drafts behind it, and forget what was behind `at`.

        Returns logits of each, and states [n, hidden_size] when they are wanted. A draft whose output is not finite is
        left out with all behind it: it may never become part of the text.

        Raises `UserError` as `read` does, when another owner began meanwhile, and when the window came to no end.
        """
        states = self._model.new_states(len(ids)) if wants_states else None
        with self._reading(owner, at):
            outcome = self._model.joint_window(((ids, self._cache),), states)
        finite = outcome.finite_rows(0, len(ids))
        if not finite and len(ids) > 1:  # a draft that is no number may spoil the rows before it
            return self.window(owner, at, ids[:1], wants_states)
        if not finite:
            raise NotFiniteError(at)
        return Rows(outcome, 0, finite), None if states is None else states[:finite]

    def rows(self, owner: object, ids: Sequence[int], width: int | None = None) -> Iterator[Row]:
        """Read a whole text; yield the logits of every token, float32 [n, vocab], pass by pass.

        `width`: tokens of a window, which each pass is then; unless given, passes are a prompt's.
        """
        step = width or self._chunk
        for start in range(0, len(ids), step):
            yield self._all(owner, start, ids[start : start + step], None, window=width is not None)

    def profile(self, owner: object, texts: Sequence[Sequence[int]], progress: Progress | None = None) -> ExpertProfile:
        """Read texts, and count the experts that were chosen."""
        total, tokens = sum(map(len, texts)), 0
        with self._model.counting() as counts:
            for ids in texts:
                for start in range(0, len(ids), self._chunk):
                    chunk = torch.tensor(ids[start : start + self._chunk])
                    with self._reading(owner, start):
                        self._model.forward(chunk, self._cache)
                    tokens += len(chunk)
                    if progress is not None:
                        progress(tokens, total)
        return ExpertProfile(tokens, counts)

    def require(self, owner: object) -> None:
        """Raise `UserError` unless the cache still is the owner's."""
        if self._is_lent:
            raise UserError(_LENT)
        if self._owner is not owner:
            raise UserError("this generation cannot go on: another one began on the same engine")

    def close(self) -> None:
        """Free the model. Idempotent."""
        if self._is_open:
            self._is_open = False
            self._model.close()

    def _all(self, owner: object, at: int, ids: Sequence[int], states: torch.Tensor | None, *, window: bool) -> Row:
        with self._reading(owner, at):
            rows = self._model.forward(torch.tensor(ids), self._cache, logits="all", states=states, window=window)
        return cast(Row, rows.numpy())

    @contextmanager
    def _reading(self, owner: object, at: int) -> Iterator[None]:
        """Go around one pass from position `at` of the owner's text on."""
        if not self._is_open:
            raise UserError(_CLOSED)
        if os.getpid() != self._process:
            raise UserError("the engine was loaded before fork(): load another one in the child process")
        if at == 0:
            self._owner = owner
        self.require(owner)
        self._cache.truncate(at)
        try:
            yield
        except (RuntimeError, StallError):
            if self._is_open:
                raise
            raise UserError(_CLOSED) from None  # by another thread, in the middle of the pass
