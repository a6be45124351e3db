"""Keys and values of the positions that were read, and the rotary angles of every position that may come."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.errors import UserError

MOST_DEFAULT_CONTEXT = 8192


@dataclass(slots=True)
class KVCache:
    """`data`: floats [layers, 2, kv_heads, capacity, head_dim], keys before values. `length` positions are filled.

    `angles`: as `rotary_angles` makes them, for `capacity` positions.
    """

    data: torch.Tensor
    angles: torch.Tensor
    length: int = field(default=0, init=False)

    @property
    def capacity(self) -> int:
        """Most positions that fit."""
        return self.data.shape[3]

    @property
    def bytes(self) -> int:
        """Memory of keys and values."""
        return self.data.nbytes

    def begin(self, length: int) -> torch.Tensor:
        """Look at keys and values of the first positions, [layers, 2, kv_heads, length, head_dim]."""
        return self.data[:, :, :, :length]

    def fill(self, begin: torch.Tensor) -> None:
        """Take over the first positions of another cache, as `begin` shows them, and forget all others."""
        self.length = begin.shape[3]
        _copy_layers(begin, self.begin(self.length))

    def on_host(self, length: int) -> torch.Tensor:
        """Copy the first positions to memory of the host: see `begin`."""
        begin = self.begin(length)
        kept = torch.empty(begin.shape, dtype=begin.dtype)
        _copy_layers(begin, kept)
        return kept

    def require(self, tokens: int) -> None:
        """Raise `UserError` unless `tokens` more positions fit; nothing is changed."""
        if self.length + tokens > self.capacity:
            raise UserError(
                f"the context is full: {self.length} tokens are in it and {tokens} more do not fit into "
                f"{self.capacity}; shorten the prompt or raise engine.context"
            )

    def truncate(self, length: int) -> None:
        """Forget every position from `length` on. Raises `ValueError` when so many were never filled."""
        if not 0 <= length <= self.length:
            raise ValueError(f"cannot truncate a cache of {self.length} positions to {length}")
        self.length = length


def _copy_layers(source: torch.Tensor, to: torch.Tensor) -> None:
    """Copy keys and values layer by layer: between host and GPU, torch makes another copy of what it takes at once."""
    for one, other in zip(source, to, strict=True):
        other.copy_(one)


def context_length(wanted: int, most: int) -> int:
    """Return how many tokens the cache holds: `wanted`, or for 0 the model's `most` up to a sensible default.

    Raises `UserError` for more than the model's own maximum.
    """
    if wanted > most:
        raise UserError(f"engine.context is {wanted}, more than this model's own maximum of {most} tokens")
    return wanted or min(most, MOST_DEFAULT_CONTEXT)


def cache_values(network: Network, capacity: int, layers: int) -> int:
    """Return how many numbers keys and values of `capacity` positions are."""
    return 2 * layers * network.kv_heads * network.head_dim * capacity
