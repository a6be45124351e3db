"""Caches for a network."""

from __future__ import annotations

from strata_runtime.checkpoint.network import Network
from strata_runtime.errors import UserError
from strata_runtime.layers.compute import Compute
from strata_runtime.layers.kv_cache import KVCache, cache_values
from strata_runtime.layers.rotary import rotary_angles
from strata_runtime.layers.threads import cores_for_the_pool
from strata_runtime.sizes import size


def make_cache(compute: Compute, network: Network, capacity: int, layers: int) -> KVCache:
    """Allocate an empty cache of `layers` layers.

    Raises `UserError` when the network cannot use `capacity` or memory does not hold it.
    """
    if not 1 <= capacity <= network.context_length:
        raise UserError(f"engine.context is {capacity}, but this model reads from 1 to {network.context_length} tokens")
    shape = (layers, 2, network.kv_heads, capacity, network.head_dim)
    try:
        with cores_for_the_pool():
            return compute.new_cache(shape, compute.constant(rotary_angles(network, capacity)))
    except (RuntimeError, MemoryError):
        needed = size(compute.cache_bytes(cache_values(network, capacity, layers)))
        raise UserError(f"no memory for a KV cache of {needed}: lower engine.context ({capacity})") from None
