"""Prompts, pass by pass, into the caches of slots."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import torch

from strata_runtime.batch.job import Job
from strata_runtime.batch.slots import Slot
from strata_runtime.errors import NotFiniteError
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.model import Model
from strata_runtime.reading import read_pass


@dataclass(frozen=True, slots=True)
class PromptReader:
    """Reads prompts in passes of at most `chunk` tokens."""

    model: Model
    chunk: int

    def warm_up(self, cache: KVCache) -> None:
        """Read one pass at the end of an empty cache: what memory and libraries passes need is there then."""
        model, tokens = self.model, min(self.chunk, cache.capacity)
        states = model.new_states(tokens) if model.mtp is not None else None
        cache.length = cache.capacity - tokens
        # Whatever is in the cache is read, and may be anything.
        with suppress(NotFiniteError):
            model.forward(torch.zeros(tokens, dtype=torch.int64), cache, states=states)
        cache.length = 0
        if model.mtp is not None and states is not None:
            model.mtp.forward([0] * tokens, states, model.mtp.new_cache(tokens))
        model.settle()

    def next_tokens(self, job: Job) -> int:
        """How many tokens the job's next pass reads; 0 when its prompt was read."""
        return min(self.chunk, job.rest)

    def fits_window(self, job: Job) -> bool:
        """Whether the job's next pass is no longer than a window, and so is done as one."""
        return self.next_tokens(job) <= self.model.most_rows

    def read(self, slot: Slot, job: Job) -> None:
        """Read one pass; the last one begins the text. Raises `UserError` when the result is not finite."""
        decoding = job.decoding
        assert decoding is not None
        tokens, ids = self.next_tokens(job), job.request.ids
        end = job.at + tokens
        row = read_pass(self.model, slot.cache, job.at, ids[job.at : end], decoding.drafter)
        is_whole = tokens == self.chunk and slot.exact == job.at
        slot.hold(ids[:end], end if is_whole else slot.exact)
        if end == len(ids):
            decoding.begin(row)
        job.at = end
