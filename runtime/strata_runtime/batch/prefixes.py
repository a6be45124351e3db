"""Keys and values that need not be computed again, because another request's prompt began alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

from strata_runtime.batch.slots import Slot
from strata_runtime.layers.kv_cache import KVCache

Reuse = Literal["off", "exact", "on"]


@dataclass(frozen=True, slots=True)
class Kept:
    """What a slot held when it went to another request. `data`: as that of a cache, for the positions of `ids`."""

    held: Sequence[int]
    exact: int
    data: torch.Tensor

    def begin(self, tokens: int) -> torch.Tensor:
        """Look at keys and values of the first tokens."""
        return self.data[:, :, :, :tokens]


@dataclass(frozen=True, slots=True)
class Found:
    """The first `tokens` of a prompt, of which `exact` were read in whole chunks, are in `source`."""

    source: Slot | Kept
    tokens: int
    exact: int


class Prefixes:
    """Finds the longest known begin of a prompt: in slots, and in host memory of `budget` bytes."""

    def __init__(self, reuse: Reuse, chunk: int, budget: int) -> None:
        """`chunk`: tokens of a prompt's passes."""
        self._reuse, self._chunk, self._budget = reuse, chunk, budget
        self._kept: list[Kept] = []  # the one used last at the end

    @property
    def bytes(self) -> int:
        """Host memory in use."""
        return sum(kept.data.nbytes for kept in self._kept)

    def find(self, ids: Sequence[int], slots: Sequence[Slot]) -> Found | None:
        """Return what is known of a prompt; its last token is always read, for what comes behind it."""
        sources: Sequence[Slot | Kept] = () if self._reuse == "off" else (*slots, *self._kept)
        found = [self._usable(ids, source) for source in sources]
        best = max(found, key=lambda each: each.tokens, default=None)
        return best if best is not None and best.tokens > 0 else None

    def _usable(self, ids: Sequence[int], source: Slot | Kept) -> Found:
        same = 0
        for mine, theirs in zip(ids[:-1], source.held, strict=False):
            if mine != theirs:
                break
            same += 1
        exact = min(same, source.exact) // self._chunk * self._chunk
        return Found(source, exact if self._reuse == "exact" else same, exact)

    def spares(self, found: Found) -> bool:
        """Whether less than a chunk of what the source holds is lost when it goes on from there."""
        return self._worth(found.source) - found.tokens < self._chunk

    def _worth(self, source: Slot | Kept) -> int:
        """How many of its tokens another prompt could take over."""
        return len(source.held) if self._reuse == "on" else source.exact

    def take(self, found: Found, slot: Slot) -> None:
        """Bring what was found into a slot's cache."""
        source = found.source
        if source is not slot:
            slot.hold((), 0)  # what was held is lost even if this comes to nothing
            slot.cache.fill(source.begin(found.tokens))
        if isinstance(source, Kept):
            self._kept.remove(source)
            self._kept.append(source)
        slot.hold(source.held[: found.tokens], found.exact)

    def keep(self, slot: Slot) -> None:
        """Keep what a slot holds, before it is overwritten, if the budget has room for it; the oldest ones go."""
        held = self._worth(slot)
        size = position_bytes(slot.cache) * held
        if self._reuse == "off" or not 0 < size <= self._budget or self._covers(slot.held[:held]):
            return
        while self.bytes + size > self._budget:
            self._kept.pop(0)
        data = slot.cache.on_host(held)
        self._kept.append(Kept(tuple(slot.held[:held]), slot.exact, data))

    def _covers(self, ids: Sequence[int]) -> bool:
        return any(len(kept.held) >= len(ids) and list(kept.held[: len(ids)]) == list(ids) for kept in self._kept)


def position_bytes(cache: KVCache) -> int:
    """Memory of one position of a cache."""
    return cache.bytes // cache.capacity
