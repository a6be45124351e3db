"""Choice and weights of the routed experts."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.by_token import by_token
from strata_runtime.layers.linear import Compute, Linear, floats

_NEVER_ZERO = torch.tensor(1e-20)  # as the reference implementation has it; a tensor is added faster than a number


class Router:
    """Scores of the experts; the best by score plus correction bias are chosen, ties by the lower index."""

    __slots__ = ("_bias", "_logits", "_normalised", "_scale", "_softmax", "_top_k")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], network: Network) -> None:
        """`tensors`: a layer's tensors by role: `router` and, when there is one, `router_bias`."""
        self._logits = Linear(compute, tensors["router"])
        bias = tensors.get("router_bias")
        self._bias = None if bias is None else floats(bias)
        self._softmax = network.router_scores == "softmax"
        self._top_k = network.top_k
        self._normalised = network.router_normalised
        self._scale = network.router_scale

    def __call__(self, buffers: Buffers) -> torch.Tensor:
        """Write the chosen ids to `buffers.expert_ids`; return their weights, float32 [tokens, top_k], contiguous."""
        logits = buffers.router
        self._logits(buffers.normed, logits)
        scores = logits
        if self._softmax:
            scores = torch.softmax(logits, dim=-1)
        else:
            by_token(logits, torch.Tensor.sigmoid_)
        ranked = scores if self._bias is None else scores + self._bias
        order = torch.sort(ranked, dim=-1, descending=True, stable=True).indices[:, : self._top_k]
        buffers.expert_ids.copy_(order)
        weights = scores.gather(1, order)
        if self._normalised:
            weights.div_(weights.sum(-1, keepdim=True).add_(_NEVER_ZERO))
        return weights if self._scale == 1.0 else weights.mul_(self._scale)
