"""Layers of a network, and how they are made from a checkpoint's."""

from __future__ import annotations

from collections.abc import Sequence

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.attention import Attention, Reach
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.experts import load_experts
from strata_runtime.layers.linear import Compute, floats
from strata_runtime.layers.mlp import Mlp
from strata_runtime.layers.moe import Moe
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.progress import Progress


class Layer:
    """Attention, then a dense MLP or a mixture of experts, each on a norm of the residual stream and added to it.

    A layer with a router is a mixture. `width` is that of its dense or shared MLP; `expert_formats` is empty and
    `expert_bytes` 0 for a dense layer.
    """

    __slots__ = ("_attention", "_attn_norm", "_mlp", "_mlp_norm", "expert_bytes", "expert_formats", "width")

    def __init__(
        self, compute: Compute, weights: LayerWeights, network: Network, wanted: FormatInfo | None, index: int
    ) -> None:
        tensors = weights.tensors
        self._attn_norm = RmsNorm(floats(tensors["attn_norm"]), network.norm_eps)
        self._mlp_norm = RmsNorm(floats(tensors["mlp_norm"]), network.norm_eps)
        self._attention = Attention(compute, tensors, network)
        self._mlp: Mlp | Moe
        self.expert_formats, self.expert_bytes = frozenset[str](), 0
        if "router" in tensors:
            loaded = load_experts(compute, weights, network, wanted, index)
            self._mlp = Moe(compute, tensors, loaded.experts, network)
            self.expert_formats, self.expert_bytes = loaded.formats, loaded.bytes
        else:
            self._mlp = Mlp(compute, tensors, "dense")
        self.width = self._mlp.width

    def __call__(self, buffers: Buffers, reach: Reach, index: int) -> None:
        """Let `buffers.hidden` pass; `index` is the layer's own in the cache."""
        self._attn_norm(buffers.hidden, out=buffers.normed)
        self._attention(buffers, reach, index)
        buffers.hidden.add_(buffers.added)
        self._mlp_norm(buffers.hidden, out=buffers.normed)
        self._mlp(buffers)


def load_layers(
    compute: Compute,
    weights: Sequence[LayerWeights],
    network: Network,
    wanted: FormatInfo | None,
    progress: Progress,
) -> tuple[Layer, ...]:
    """Make all layers, experts re-encoded to `wanted` unless it is None. `progress` gets (done, total) layers."""
    layers = []
    for index, layer in enumerate(weights):
        layers.append(Layer(compute, layer, network, wanted, index))
        progress(index + 1, len(weights))
    return tuple(layers)
