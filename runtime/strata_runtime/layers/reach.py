"""What one pass reads and writes of KV caches."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.layers.kv_cache import KVCache


@dataclass(frozen=True, slots=True)
class Part:
    """The tokens of a pass that are of one text: `tokens`, behind the `start` positions of `cache` that were filled.

    `first`: row of its first token among all of the pass. `number`: of the part, from 0. `mask`: [tokens, positions],
    -inf where a token may not look; empty where it is not used.
    """

    tokens: int
    start: int
    cache: KVCache
    mask: torch.Tensor
    first: int = 0
    number: int = 0

    def address(self, layer: int) -> int:
        """Where a layer's keys and values begin."""
        data = self.cache.data
        return data.data_ptr() + layer * data.stride(0) * data.itemsize

    def filled(self, layer: int) -> torch.Tensor:
        """Keys and values of a layer up to the part's last position, [2, kv_heads, positions, head_dim]."""
        return self.cache.data[layer, :, :, : self.start + self.tokens]

    def rows(self, x: torch.Tensor) -> int:
        """Where the part's rows of `x` [tokens of the pass, columns], contiguous, begin."""
        return x.data_ptr() + self.first * x.stride(0) * x.itemsize if self.first else x.data_ptr()


Reach = tuple[Part, ...]
"""The parts of one pass; made once for it. Their rows lie side by side, in order."""
