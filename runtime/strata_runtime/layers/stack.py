"""Layers of a network, and how they are made from a checkpoint's."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.attention import Attention
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.compute import Compute
from strata_runtime.layers.executor import Executor, ExpertLayer
from strata_runtime.layers.experts import LoadedExperts, load_experts
from strata_runtime.layers.linear import floats
from strata_runtime.layers.mlp import DenseMlp
from strata_runtime.layers.moe import Moe
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.layers.reach import Reach
from strata_runtime.progress import Progress


@dataclass(frozen=True, slots=True)
class MixturePlace:
    """Which of the layers with routed experts one is, from 0, and whether it is the last of them."""

    number: int
    is_last: bool


class Layer:
    """Attention, then a dense MLP or a mixture of experts, each on a norm of the residual stream and added to it.

    A layer with a router is a mixture. `width` is that of its dense or shared MLP; `experts` is None for a dense
    layer.
    """

    __slots__ = ("_attention", "_attn_norm", "_mlp", "_mlp_norm", "experts", "width")

    def __init__(
        self,
        compute: Compute,
        host: PoolCompute,
        weights: LayerWeights,
        network: Network,
        wanted: FormatInfo | None,
        index: int,
        place: MixturePlace,
    ) -> None:
        """`host`: what routed experts are computed with; `index`: among all layers, for messages; `place`: among those
        with routed experts.
        """
        tensors = weights.tensors
        self._attn_norm = RmsNorm(compute, floats(tensors["attn_norm"]), network.norm_eps)
        self._mlp_norm = RmsNorm(compute, floats(tensors["mlp_norm"]), network.norm_eps)
        self._attention = Attention(compute, tensors, network)
        self._mlp: DenseMlp | Moe
        self.experts: LoadedExperts | None = None
        if "router" in tensors:
            self.experts = load_experts(host, weights, network, wanted, index)
            mixture = ExpertLayer(self.experts.experts, place.number, place.is_last)
            self._mlp = Moe(compute, tensors, mixture, network)
        else:
            self._mlp = DenseMlp(compute, tensors)
        self.width = self._mlp.width

    def __call__(self, buffers: Buffers, reach: Reach, index: int, executor: Executor) -> None:
        """Let `buffers.hidden` pass; `index` is the layer's own in the cache."""
        self._attn_norm(buffers.hidden, out=buffers.normed)
        self._attention(buffers, reach, index)
        executor.laps.lap("mixer")
        executor.join_late(buffers)
        self._mlp_norm(buffers.hidden, out=buffers.normed)
        self._mlp(buffers, executor)


def load_layers(
    compute: Compute,
    host: PoolCompute,
    weights: Sequence[LayerWeights],
    network: Network,
    wanted: FormatInfo | None,
    progress: Progress,
) -> tuple[Layer, ...]:
    """Make all layers, experts re-encoded to `wanted` unless it is None. `progress` gets (done, total) layers.

    `host`: what routed experts are computed with.
    """
    mixtures = [index for index, layer in enumerate(weights) if "router" in layer.tensors]
    layers = []
    for index, layer in enumerate(weights):
        place = MixturePlace(bisect_left(mixtures, index), index == max(mixtures, default=-1))
        layers.append(Layer(compute, host, layer, network, wanted, index, place))
        progress(index + 1, len(weights))
    return tuple(layers)
