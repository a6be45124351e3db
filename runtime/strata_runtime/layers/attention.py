"""Grouped-query attention over a KV cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import WINDOW, Buffers, HeadRows, TokenHeads
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.linear import Compute, Linear, floats
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.rotary import RotaryTable

_NO_MASK = torch.empty(0)


@dataclass(frozen=True, slots=True)
class Reach:
    """What one pass reads and writes of a cache; views by layer, made once per pass.

    `fresh`: [2, kv_heads, tokens, head_dim], where the pass puts its keys and values. `keys`: [kv_heads, head_dim,
    positions] and `values`: [kv_heads, positions, head_dim], those included: up to `WINDOW` tokens an item for each,
    which ends with it, and beyond one item for all. `mask`: [tokens, positions] for that one, -inf where a token may
    not look.
    """

    rotary: RotaryTable
    fresh: tuple[torch.Tensor, ...]
    keys: tuple[tuple[torch.Tensor, ...], ...]
    values: tuple[tuple[torch.Tensor, ...], ...]
    mask: torch.Tensor

    @staticmethod
    def of(cache: KVCache, tokens: int) -> Reach:
        """Look at `cache` as a pass over `tokens` further tokens does."""
        start, stop = cache.length, cache.length + tokens
        is_few = tokens <= WINDOW
        ends = range(start + 1, stop + 1) if is_few else (stop,)
        return Reach(
            cache.rotary.rows(start, tokens),
            cache.data[:, :, :, start:stop].unbind(0),
            tuple(cache.keys[:, :, :end].transpose(2, 3).unbind(0) for end in ends),
            tuple(cache.values[:, :, :end].unbind(0) for end in ends),
            _NO_MASK if is_few else torch.full((tokens, stop), -math.inf).triu_(start + 1),
        )


class Attention:
    """One layer's attention. Reads `buffers.normed`, writes `buffers.added`."""

    __slots__ = ("_k", "_norms", "_o", "_q", "_scale", "_v")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], network: Network) -> None:
        """`tensors`: a layer's by role; biases, scales and norms of queries and keys are used when they are there."""
        self._q = Linear.of(compute, tensors, "attn_q")
        self._k = Linear.of(compute, tensors, "attn_k")
        self._v = Linear.of(compute, tensors, "attn_v")
        self._o = Linear.of(compute, tensors, "attn_o")
        self._scale = network.head_dim**-0.5
        self._norms: tuple[RmsNorm, RmsNorm, RmsNorm] | None = None
        if "attn_q_norm" in tensors:
            # The scale of the scores goes into the queries' weight.
            q, k = floats(tensors["attn_q_norm"]) * self._scale, floats(tensors["attn_k_norm"])
            both = torch.cat((q.expand(network.heads, -1), k.expand(network.kv_heads, -1)))
            self._norms = (RmsNorm(q, network.norm_eps), RmsNorm(k, network.norm_eps), RmsNorm(both, network.norm_eps))

    def __call__(self, buffers: Buffers, reach: Reach, layer: int) -> None:
        """Attend with `buffers.tokens` tokens, after writing their keys and values to the cache of `layer`."""
        self._q(buffers.normed, buffers.q)
        self._k(buffers.normed, buffers.k)
        self._v(buffers.normed, buffers.v)
        self._prepare(buffers, reach.rotary)
        reach.fresh[layer].copy_(buffers.kv_heads)
        if buffers.few:
            for heads, keys, values in zip(buffers.few, reach.keys, reach.values, strict=True):
                _attend_one(heads, keys[layer], values[layer])
        else:
            _attend_many(buffers, reach.keys[0][layer], reach.values[0][layer], reach.mask)
        self._o(buffers.attended, buffers.added)

    def _prepare(self, buffers: Buffers, rotary: RotaryTable) -> None:
        """Norm, scale and rotate queries and keys in place."""
        if buffers.qk_rows is not None:
            self._prepare_rows(buffers.qk_rows, 2, rotary)
        else:
            self._prepare_rows(buffers.q_rows, 0, rotary)
            self._prepare_rows(buffers.k_rows, 1, rotary)
        if self._norms is None:
            buffers.q.mul_(self._scale)

    def _prepare_rows(self, rows: HeadRows, which: int, rotary: RotaryTable) -> None:
        if self._norms is not None:
            self._norms[which](rows.heads, out=rows.heads)
        rotary.turn(rows.rotated)


def _attend_one(heads: TokenHeads, keys: torch.Tensor, values: torch.Tensor) -> None:
    """Attend with one token: two matrix products per key head, all of a group's queries at once.

    Several tokens in one product would round differently: its kernels sum in an order that depends on the sizes.
    """
    torch.bmm(torch.softmax(torch.bmm(heads.queries, keys), -1), values, out=heads.attended)


def _attend_many(buffers: Buffers, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor) -> None:
    """Attend blockwise. Key heads are the batch, and repeat without a copy over their group."""
    kv_heads, group = buffers.q_heads.shape[:2]
    shape = (kv_heads, group, *values.shape[1:])
    keys, values = keys.transpose(1, 2)[:, None].expand(shape), values[:, None].expand(shape)
    buffers.attended_heads.copy_(scaled_dot_product_attention(buffers.q_heads, keys, values, mask, scale=1.0))
