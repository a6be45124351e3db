"""Slots: one cache each, the request that has it, and what earlier ones left in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from strata_runtime.batch.job import Job
from strata_runtime.batch.status import SlotState, SlotStatus
from strata_runtime.layers.kv_cache import KVCache


@dataclass(slots=True, eq=False)
class Slot:
    """`held`: the tokens whose keys and values are in `cache`, from its begin on. `exact`: how many of them were read
    in whole chunks, as any prompt that begins with them is. `used`: when it was freed, by the batch's count.
    """

    number: int
    cache: KVCache
    held: list[int] = field(default_factory=list)
    exact: int = 0
    job: Job | None = None
    used: int = 0

    @property
    def is_decoding(self) -> bool:
        """Whether its prompt was read, and its text goes on."""
        job = self.job
        return job is not None and job.rest == 0 and job.decoding is not None and job.decoding.finish is None

    def begin(self, tokens: int) -> torch.Tensor:
        """Look at keys and values of the first tokens that are held."""
        return self.cache.begin(tokens)

    def hold(self, ids: Sequence[int], exact: int) -> None:
        """Note what is in the cache."""
        self.held, self.exact = list(ids), min(exact, len(ids))

    def status(self, reading: Job | None) -> SlotStatus:
        """Say what it does; `reading`: whose prompt is being read."""
        job = self.job
        if job is None:
            return SlotStatus("free", None, 0, 0)
        state: SlotState = "decoding" if job.rest == 0 else "reading" if job is reading else "waiting"
        decoding = job.decoding
        drawn, limit = (0, 0) if decoding is None else (len(decoding.token_ids), decoding.limit)
        return SlotStatus(state, job.number, job.at + drawn, len(job.request.ids) + limit)
