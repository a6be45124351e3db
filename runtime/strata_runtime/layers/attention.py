"""Grouped-query attention over a KV cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.linear import Compute, Linear, floats
from strata_runtime.native import HeadRules, HeadShape, LayerCache
from strata_runtime.params import MAX_WINDOW

_NO_MASK = torch.empty(0)


@dataclass(frozen=True, slots=True)
class Reach:
    """What one pass reads and writes of a cache, made once per pass.

    `layers`: what kernels are told of each layer. `data`: the cache's, up to the pass's last position. `mask`: beyond
    `MAX_WINDOW` tokens [tokens, positions], -inf where a token may not look.
    """

    layers: tuple[LayerCache, ...]
    angles: int
    data: torch.Tensor
    mask: torch.Tensor

    @staticmethod
    def of(cache: KVCache, tokens: int) -> Reach:
        """Look at `cache` as a pass over `tokens` further tokens does."""
        start, stop = cache.length, cache.length + tokens
        first, step = cache.data.data_ptr(), cache.data.stride(0) * cache.data.itemsize
        return Reach(
            tuple((first + layer * step, cache.capacity, start) for layer in range(cache.data.shape[0])),
            cache.angles.data_ptr(),
            cache.data[:, :, :, :stop],
            _NO_MASK if tokens <= MAX_WINDOW else torch.full((tokens, stop), -math.inf).triu_(start + 1),
        )


class Attention:
    """One layer's attention. Reads `buffers.normed`, writes `buffers.added`."""

    __slots__ = ("_compute", "_k", "_norms", "_o", "_q", "_rules", "_shape", "_v")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], network: Network) -> None:
        """`tensors`: a layer's by role; biases, scales and norms of queries and keys are used when they are there."""
        self._compute = compute
        self._q = Linear.of(compute, tensors, "attn_q")
        self._k = Linear.of(compute, tensors, "attn_k")
        self._v = Linear.of(compute, tensors, "attn_v")
        self._o = Linear.of(compute, tensors, "attn_o")
        self._norms = tuple(floats(tensors[role]) for role in ("attn_q_norm", "attn_k_norm") if role in tensors)
        q_norm, k_norm = (norm.data_ptr() for norm in self._norms) if self._norms else (0, 0)
        self._rules: HeadRules = (q_norm, k_norm, network.norm_eps, network.head_dim**-0.5, network.rope_dim)
        self._shape: HeadShape = (network.heads, network.kv_heads, network.head_dim)

    def __call__(self, buffers: Buffers, reach: Reach, layer: int) -> None:
        """Attend with `buffers.tokens` tokens, after writing their keys and values to the cache of `layer`."""
        self._q(buffers.normed, buffers.q)
        self._k(buffers.normed, buffers.k)
        self._v(buffers.normed, buffers.v)
        native, pool, cache, tokens = self._compute.native, self._compute.pool, reach.layers[layer], buffers.tokens
        queries, keys, values = buffers.q.data_ptr(), buffers.k.data_ptr(), buffers.v.data_ptr()
        native.prepare_heads(pool, self._shape, self._rules, cache, tokens, reach.angles, queries, keys, values)
        if tokens <= MAX_WINDOW:
            native.attend(pool, self._shape, cache, tokens, queries, buffers.attended.data_ptr())
        else:
            self._attend_many(buffers, reach.data[layer], reach.mask)
        self._o(buffers.attended, buffers.added)

    def _attend_many(self, buffers: Buffers, data: torch.Tensor, mask: torch.Tensor) -> None:
        """Attend blockwise. Key heads are the batch, and repeat without a copy over their group."""
        heads, kv_heads, dim = self._shape
        split = (buffers.tokens, kv_heads, heads // kv_heads, dim)
        queries, attended = (x.view(split).permute(1, 2, 0, 3) for x in (buffers.q, buffers.attended))
        keys, values = data[:, :, None].expand(2, *split[1:3], *data.shape[2:]).unbind(0)
        attended.copy_(scaled_dot_product_attention(queries, keys, values, mask, scale=1.0))
