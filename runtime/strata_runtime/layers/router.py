"""Choice and weights of the routed experts."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.errors import UserError
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.linear import Compute, Linear, floats
from strata_runtime.native_device import HOST_STREAM


class Router:
    """Scores of the experts; the best by score plus correction bias are chosen, ties by the lower index."""

    __slots__ = ("_bias", "_compute", "_experts", "_logits", "_normalised", "_scale", "_sigmoid", "_top_k")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], network: Network) -> None:
        """`tensors`: a layer's tensors by role: `router` and, when there is one, `router_bias`.

        Raises `UserError` when the package's kernels do not take so many experts or picks.
        """
        self._compute = compute
        self._logits = Linear(compute, tensors["router"])
        bias = tensors.get("router_bias")
        self._bias = None if bias is None else floats(bias)
        self._sigmoid = network.router_scores == "sigmoid"
        self._experts, self._top_k = network.experts, network.top_k
        self._normalised = network.router_normalised
        self._scale = network.router_scale
        try:
            self._choose(0, 0, 0, 0)
        except ValueError as problem:
            raise UserError(
                f"the network picks {network.top_k} of {network.experts} experts, and the kernels refuse that "
                f"({problem}): build them with strata-gen build --set window.max_top_k=... --set window.max_experts=..."
            ) from None

    def __call__(self, buffers: Buffers) -> torch.Tensor:
        """Write the chosen ids to `buffers.expert_ids`; return their weights, new float32 [tokens, top_k]."""
        logits, weights = buffers.router, torch.empty(buffers.tokens, self._top_k)
        self._logits(buffers.normed, logits)
        self._choose(buffers.tokens, logits.data_ptr(), buffers.expert_ids.data_ptr(), weights.data_ptr())
        return weights

    def _choose(self, tokens: int, logits: int, ids: int, weights: int) -> None:
        self._compute.native.device.router_topk(
            tokens,
            self._experts,
            self._top_k,
            logits,
            0 if self._bias is None else self._bias.data_ptr(),
            self._sigmoid,
            self._normalised,
            self._scale,
            ids,
            weights,
            HOST_STREAM,
        )
