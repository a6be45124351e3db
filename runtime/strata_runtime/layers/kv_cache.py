"""Keys and values of the positions that were read, and the rotary angles of every position that may come."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.errors import UserError
from strata_runtime.layers.rotary import rotary_angles
from strata_runtime.sizes import size

MOST_DEFAULT_CONTEXT = 8192


@dataclass(slots=True)
class KVCache:
    """`data`: float32 [layers, 2, kv_heads, capacity, head_dim], keys before values. `length` positions are filled.

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


def context_length(wanted: int, most: int) -> int:
    """Return how many tokens the cache holds: `wanted`, or for 0 the model's `most` up to a sensible default.

    Raises `UserError` for more than the model's own maximum.
    """
    if wanted > most:
        raise UserError(f"engine.context is {wanted}, more than this model's own maximum of {most} tokens")
    return wanted or min(most, MOST_DEFAULT_CONTEXT)


def cache_bytes(network: Network, capacity: int, layers: int) -> int:
    """Return the memory that keys and values of `capacity` positions take."""
    return 2 * 4 * layers * network.kv_heads * network.head_dim * capacity


def make_cache(network: Network, capacity: int, layers: int) -> KVCache:
    """Allocate an empty cache of `layers` layers.

    Raises `UserError` when the network cannot use `capacity` or memory does not hold it.
    """
    if not 1 <= capacity <= network.context_length:
        raise UserError(f"engine.context is {capacity}, but this model reads from 1 to {network.context_length} tokens")
    shape = (layers, 2, network.kv_heads, capacity, network.head_dim)
    try:
        return KVCache(torch.empty(shape), rotary_angles(network, capacity))
    except (RuntimeError, MemoryError):
        needed = size(cache_bytes(network, capacity, layers))
        raise UserError(f"no memory for a KV cache of {needed}: lower engine.context ({capacity})") from None
