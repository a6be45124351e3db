"""Multi-token prediction: a further layer that guesses the token behind the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Workspace
from strata_runtime.layers.caches import make_cache
from strata_runtime.layers.compute import Activation, Compute, Embed
from strata_runtime.layers.executor import Executor
from strata_runtime.layers.kv_cache import KVCache, cache_values
from strata_runtime.layers.linear import Linear, floats
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.stack import Layer


class Mtp:
    """A layer of its own on the projection of [embedding of a token ; state of the token before it], each normalised.

    A state is what an output layer works on: the network's for the token before, or this layer's own, for a guess
    behind a guess. Shares the network's embedding and output layer where the checkpoint has no others for it.
    """

    __slots__ = (
        "_compute",
        "_embedding",
        "_embedding_norm",
        "_executor",
        "_final_norm",
        "_head",
        "_hidden_norm",
        "_layer",
        "_network",
        "_projection",
        "_workspace",
    )

    def __init__(
        self,
        compute: Compute,
        tensors: Mapping[str, Stored],
        layer: Layer,
        network: Network,
        embedding: Embed,
        head: Linear,
        workspace: Workspace,
        executor: Executor,
    ) -> None:
        """`tensors`: the layer's by role. `workspace` may be the network's: passes of the two do not overlap."""

        def norm(role: str) -> RmsNorm:
            return RmsNorm(compute, floats(tensors[role]), network.norm_eps)

        self._embedding_norm, self._hidden_norm = norm("mtp_embedding_norm"), norm("mtp_hidden_norm")
        self._final_norm = norm("mtp_final_norm")
        self._projection = Linear(compute, {"mtp_projection": tensors["mtp_projection"]}, "mtp_projection")
        own_embedding, own_head = tensors.get("mtp_embedding"), tensors.get("mtp_head")
        self._embedding = embedding if own_embedding is None else compute.embedding(own_embedding)
        self._head = head if own_head is None else Linear(compute, {"mtp_head": own_head}, "mtp_head")
        self._layer, self._network, self._workspace = layer, network, workspace
        self._compute, self._executor = compute, executor

    @property
    def cache_bytes_per_token(self) -> int:
        """Memory that one position of its cache takes."""
        return self._compute.cache_bytes(cache_values(self._network, 1, layers=1))

    def new_cache(self, capacity: int) -> KVCache:
        """Allocate an empty cache for `capacity` positions."""
        return make_cache(self._compute, self._network, capacity, layers=1)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], states: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """Read `ids` behind what is in `cache` and append them to it; return this layer's states of them.

        ids: inside the vocabulary. states: float32 [ids, hidden_size], each that of the token before. Returns new
        float32 [ids, hidden_size], finite or not.
        """
        compute, (tokens, hidden) = self._compute, states.shape
        buffers = self._workspace.buffers(tokens)
        both, result = compute.activation(tokens, 2 * hidden), compute.activation(tokens, hidden)
        with compute.passing(), self._executor.passing(tokens):
            self._embedding(compute.token_ids(ids), buffers.normed.values)
            self._embedding_norm(buffers.normed.values, out=buffers.normed)
            self._hidden_norm(states.contiguous(), out=Activation(buffers.added))
            torch.cat((buffers.normed.values, buffers.added), dim=1, out=both.values)
            compute.quantise(both)
            self._projection(both, buffers.hidden)
            self._layer(buffers, compute.reach(((tokens, cache),)), 0, self._executor)
            self._final_norm(buffers.hidden, out=result)
            self._executor.laps.lap("head")
            compute.settle()  # a pass of an executor ends when all of it has run
        cache.length += tokens
        return result.values

    @torch.inference_mode()
    def logits(self, state: torch.Tensor) -> torch.Tensor:
        """Return the logits, new float32 [vocab_size], of the token behind the one whose state [1, hidden_size] is."""
        compute = self._compute
        result, x = compute.empty(1, self._network.vocab_size), compute.activation(*state.shape)
        with compute.passing():
            x.values.copy_(state)
            compute.quantise(x)
            self._head(x, result)
        return result[0].cpu()
