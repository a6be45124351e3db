"""Grouped-query attention over a KV cache."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from strata_runtime.checkpoint.network import Network
from strata_runtime.kv_cache import KVCache
from strata_runtime.layers.buffers import WINDOW, Buffers, HeadRows
from strata_runtime.layers.linear import Compute, Linear
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.rotary import RotaryTable


@dataclass(frozen=True, slots=True)
class Reach:
    """What one pass reads and writes of a cache; views by layer, made once per pass.

    `new_keys`, `new_values`: [kv_heads, tokens, head_dim], where the pass puts its own. `keys`, `values`: [kv_heads,
    positions, head_dim], those included. `mask`: [tokens, positions], -inf where a token may not look; None when all
    may look everywhere.
    """

    rotary: RotaryTable
    new_keys: tuple[torch.Tensor, ...]
    new_values: tuple[torch.Tensor, ...]
    keys: tuple[torch.Tensor, ...]
    values: tuple[torch.Tensor, ...]
    mask: torch.Tensor | None

    @staticmethod
    def of(cache: KVCache, tokens: int) -> Reach:
        """Look at `cache` as a pass over `tokens` further tokens does."""
        start, stop = cache.length, cache.length + tokens
        mask = None
        if tokens > 1:
            mask = torch.full((tokens, stop), -math.inf).triu_(start + 1)
        return Reach(
            cache.rotary.rows(start, tokens),
            cache.keys[:, :, start:stop].unbind(0),
            cache.values[:, :, start:stop].unbind(0),
            cache.keys[:, :, :stop].unbind(0),
            cache.values[:, :, :stop].unbind(0),
            mask,
        )


class Attention:
    """One layer's attention. Reads `buffers.normed`, writes `buffers.added`."""

    __slots__ = ("_k", "_norms", "_o", "_q", "_scale", "_v")

    def __init__(self, compute: Compute, tensors: Mapping[str, torch.Tensor], network: Network) -> None:
        """`tensors`: a layer's tensors by role; biases and norms of queries and keys are used when they are there."""
        self._q = Linear(compute, tensors["attn_q"], tensors.get("attn_q_bias"))
        self._k = Linear(compute, tensors["attn_k"], tensors.get("attn_k_bias"))
        self._v = Linear(compute, tensors["attn_v"], tensors.get("attn_v_bias"))
        self._o = Linear(compute, tensors["attn_o"])
        self._scale = network.head_dim**-0.5
        self._norms: tuple[RmsNorm, RmsNorm, RmsNorm] | None = None
        if "attn_q_norm" in tensors:
            # The scale of the scores goes into the queries' weight.
            q, k = tensors["attn_q_norm"].float() * self._scale, tensors["attn_k_norm"].float()
            both = torch.cat((q.expand(network.heads, -1), k.expand(network.kv_heads, -1)))
            self._norms = (RmsNorm(q, network.norm_eps), RmsNorm(k, network.norm_eps), RmsNorm(both, network.norm_eps))

    def __call__(self, buffers: Buffers, reach: Reach, layer: int) -> None:
        """Attend with `buffers.tokens` tokens, after writing their keys and values to the cache of `layer`."""
        self._q(buffers.normed, buffers.q)
        self._k(buffers.normed, buffers.k)
        self._v(buffers.normed, buffers.v)
        self._prepare(buffers, reach.rotary)
        reach.new_keys[layer].copy_(buffers.k_heads)
        reach.new_values[layer].copy_(buffers.v_heads)
        attend = _attend_few if buffers.tokens <= WINDOW else _attend_many
        attend(buffers, reach.keys[layer], reach.values[layer], reach.mask)
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


def _attend_few(buffers: Buffers, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> None:
    """Attend as two matrix products per key head, all of a group's queries at once."""
    kv_heads, group, tokens, dim = buffers.q_heads.shape
    scores = torch.bmm(buffers.q_heads.reshape(kv_heads, group * tokens, dim), keys.transpose(1, 2))
    if mask is not None:
        scores.view(kv_heads, group, tokens, -1).add_(mask)
    attended = torch.bmm(torch.softmax(scores, -1), values).view(kv_heads, group, tokens, dim)
    buffers.attended.view(tokens, kv_heads, group, dim).copy_(attended.permute(2, 0, 1, 3))


def _attend_many(buffers: Buffers, keys: torch.Tensor, values: torch.Tensor, mask: torch.Tensor | None) -> None:
    """Attend blockwise. Key heads are the batch and repeat without a copy over their group."""
    kv_heads, group, tokens, dim = buffers.q_heads.shape
    shape = (kv_heads, group, keys.shape[1], dim)
    attended = scaled_dot_product_attention(
        buffers.q_heads, keys[:, None].expand(shape), values[:, None].expand(shape), mask, scale=1.0
    )
    buffers.attended.view(tokens, kv_heads, group, dim).copy_(attended.permute(2, 0, 1, 3))
