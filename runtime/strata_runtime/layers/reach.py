"""What one pass reads and writes of a KV cache."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.layers.kv_cache import KVCache


@dataclass(frozen=True, slots=True)
class Reach:
    """Made once per pass over `tokens` tokens, behind the `start` positions of `cache` that were filled.

    `mask`: [tokens, positions], -inf where a token may not look; empty where it is not used.
    """

    tokens: int
    start: int
    cache: KVCache
    mask: torch.Tensor

    def address(self, layer: int) -> int:
        """Where a layer's keys and values begin."""
        data = self.cache.data
        return data.data_ptr() + layer * data.stride(0) * data.itemsize

    def filled(self, layer: int) -> torch.Tensor:
        """Keys and values of a layer up to the pass's last position, [2, kv_heads, positions, head_dim]."""
        return self.cache.data[layer, :, :, : self.start + self.tokens]
