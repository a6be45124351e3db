"""Mixture-of-experts layers: router, routed experts, shared experts."""

from __future__ import annotations

from collections.abc import Mapping

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.compute import Compute
from strata_runtime.layers.executor import Executor, ExpertLayer
from strata_runtime.layers.mlp import Mlp
from strata_runtime.layers.router import Router


class Moe:
    """Weighted sum of the chosen experts, plus the shared experts."""

    __slots__ = ("_layer", "_router", "_shared")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], layer: ExpertLayer, network: Network) -> None:
        """`tensors`: a layer's tensors by role; shared experts are used when they are there."""
        self._router = Router(compute, tensors, network)
        self._layer = layer
        self._shared = Mlp(compute, tensors, "shared") if "shared_gate" in tensors else None

    @property
    def width(self) -> int:
        """Width of the shared experts."""
        return 0 if self._shared is None else self._shared.width

    def __call__(self, buffers: Buffers, executor: Executor) -> None:
        """Add the layer's result for `buffers.normed` to `buffers.hidden`."""
        weights = self._router(buffers)
        executor.begin(self._layer, buffers, weights)
        if self._shared is not None:
            self._shared(buffers)
            executor.laps.lap("experts")
        executor.finish(self._layer, buffers, weights)
        if self._shared is not None:
            buffers.hidden.add_(buffers.added)
            executor.laps.lap("combine")
