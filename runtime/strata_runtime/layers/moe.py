"""Mixture-of-experts layers: router, routed experts, shared experts."""

from __future__ import annotations

from collections.abc import Mapping

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.linear import Compute
from strata_runtime.layers.mlp import Mlp
from strata_runtime.layers.router import Router
from strata_runtime.native import Experts


class Moe:
    """Weighted sum of the chosen experts, plus the shared experts."""

    __slots__ = ("_compute", "_experts", "_router", "_shared", "_top_k")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], experts: Experts, network: Network) -> None:
        """`tensors`: a layer's tensors by role; shared experts are used when they are there."""
        self._compute = compute
        self._router = Router(compute, tensors, network)
        self._experts = experts
        self._shared = Mlp(compute, tensors, "shared") if "shared_gate" in tensors else None
        self._top_k = network.top_k

    @property
    def width(self) -> int:
        """Width of the shared experts."""
        return 0 if self._shared is None else self._shared.width

    def __call__(self, buffers: Buffers) -> None:
        """Add the layer's result for `buffers.normed` to `buffers.hidden`."""
        native, pool = self._compute.native, self._compute.pool
        tokens, rows = buffers.tokens, buffers.expert_rows.data_ptr()
        weights = self._router(buffers)
        native.experts(
            pool, self._experts, tokens, self._top_k, buffers.normed.data_ptr(), buffers.expert_ids.data_ptr(), rows
        )
        hidden = buffers.hidden
        native.combine(tokens, self._top_k, hidden.shape[1], rows, weights.data_ptr(), hidden.data_ptr())
        if self._shared is not None:
            self._shared(buffers)
