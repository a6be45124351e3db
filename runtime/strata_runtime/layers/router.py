"""Choice and weights of the routed experts."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.errors import UserError
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.compute import Compute, RouterRule
from strata_runtime.layers.linear import Linear, floats


class Router:
    """Scores of the experts; the best by score plus correction bias are chosen, ties by the lower index."""

    __slots__ = ("_compute", "_logits", "_rule")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], network: Network) -> None:
        """`tensors`: a layer's tensors by role: `router` and, when there is one, `router_bias`.

        Raises `UserError` when the package's kernels do not take so many experts or picks.
        """
        self._compute = compute
        # The bias is for the choice: the router's logits have none.
        self._logits = Linear(compute, {"router": tensors["router"]}, "router")
        bias = tensors.get("router_bias")
        self._rule = RouterRule(
            network.experts,
            network.top_k,
            network.router_scores == "sigmoid",
            network.router_normalised,
            network.router_scale,
            None if bias is None else compute.constant(floats(bias)),
        )
        nothing = compute.empty(0, network.experts)
        try:
            compute.choose(self._rule, nothing, nothing, nothing)
        except ValueError as problem:
            raise UserError(
                f"the network picks {network.top_k} of {network.experts} experts, and the kernels refuse that "
                f"({problem}): build them with strata-gen build --set window.max_top_k=... --set window.max_experts=..."
            ) from None

    def __call__(self, buffers: Buffers) -> torch.Tensor:
        """Write the chosen ids to `buffers.expert_ids`; return their weights, new float32 [tokens, top_k]."""
        weights = self._compute.empty(*buffers.expert_ids.shape)
        self._logits(buffers.normed, buffers.router)
        self._compute.choose(self._rule, buffers.router, buffers.expert_ids, weights)
        return weights
