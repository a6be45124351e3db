"""Grouped-query attention over a KV cache."""

from __future__ import annotations

from collections.abc import Mapping

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.compute import Compute
from strata_runtime.layers.linear import Linear, floats
from strata_runtime.layers.reach import Reach
from strata_runtime.native_layers import HeadRules, HeadShape


class Attention:
    """One layer's attention. Reads `buffers.normed`, adds to `buffers.hidden`."""

    __slots__ = ("_compute", "_norms", "_o", "_qkv", "_rules", "_shape")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], network: Network) -> None:
        """`tensors`: a layer's by role; biases, scales and norms of queries and keys are used when they are there."""
        self._compute = compute
        self._qkv = Linear(compute, tensors, "attn_q", "attn_k", "attn_v")
        self._o = Linear(compute, tensors, "attn_o")
        norms = (floats(tensors[role]) for role in ("attn_q_norm", "attn_k_norm") if role in tensors)
        self._norms = tuple(compute.constant(norm) for norm in norms)
        q_norm, k_norm = (norm.data_ptr() for norm in self._norms) if self._norms else (0, 0)
        self._rules: HeadRules = (q_norm, k_norm, network.norm_eps, network.head_dim**-0.5, network.rope_dim)
        self._shape: HeadShape = (network.heads, network.kv_heads, network.head_dim)

    def __call__(self, buffers: Buffers, reach: Reach, layer: int) -> None:
        """Attend with all tokens, after writing their keys and values to the cache of `layer`."""
        heads = buffers.q, buffers.k, buffers.v
        self._qkv(buffers.normed, *heads)
        for part in reach:
            self._compute.prepare_heads(self._shape, self._rules, part, layer, heads)
            self._compute.attend(self._shape, part, layer, buffers.q, buffers.attended)
        if len(reach) > 1:
            self._compute.quantise(buffers.attended)
        self._o.add(buffers.attended, buffers.hidden, buffers.added)
