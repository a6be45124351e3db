"""Multi-token prediction: a further layer that guesses the token behind the next one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.attention import Reach
from strata_runtime.layers.buffers import Workspace
from strata_runtime.layers.executor import Direct
from strata_runtime.layers.kv_cache import KVCache, make_cache
from strata_runtime.layers.linear import Compute, Embedding, Linear, floats
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.stack import Layer
from strata_runtime.layers.threads import cores_for_the_pool


class Mtp:
    """A layer of its own on the projection of [embedding of a token ; state of the token before it], each normalised.

    A state is what an output layer works on: the network's for the token before, or this layer's own, for a guess
    behind a guess. Shares the network's embedding and output layer where the checkpoint has no others for it.
    """

    __slots__ = (
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
        embedding: Embedding,
        head: Linear,
        workspace: Workspace,
    ) -> None:
        """`tensors`: the layer's by role. `workspace` may be the network's: passes of the two do not overlap."""

        def norm(role: str) -> RmsNorm:
            return RmsNorm(compute, floats(tensors[role]), network.norm_eps)

        self._embedding_norm, self._hidden_norm = norm("mtp_embedding_norm"), norm("mtp_hidden_norm")
        self._final_norm = norm("mtp_final_norm")
        self._projection = Linear(compute, tensors["mtp_projection"])
        own_embedding, own_head = tensors.get("mtp_embedding"), tensors.get("mtp_head")
        self._embedding = embedding if own_embedding is None else Embedding(compute, own_embedding)
        self._head = head if own_head is None else Linear(compute, own_head)
        self._layer, self._network, self._workspace = layer, network, workspace
        self._executor = Direct(compute)

    @property
    def cache_bytes_per_token(self) -> int:
        """Memory that one position of its cache takes."""
        return 2 * 4 * self._network.kv_heads * self._network.head_dim

    def new_cache(self, capacity: int) -> KVCache:
        """Allocate an empty cache for `capacity` positions."""
        return make_cache(self._network, capacity, layers=1)

    @torch.inference_mode()
    def forward(self, ids: Sequence[int], states: torch.Tensor, cache: KVCache) -> torch.Tensor:
        """Read `ids` behind what is in `cache` and append them to it; return this layer's states of them.

        ids: inside the vocabulary. states: float32 [ids, hidden_size], each that of the token before. Returns new
        float32 [ids, hidden_size], finite or not.
        """
        tokens, hidden = states.shape
        buffers = self._workspace.buffers(tokens)
        self._embedding(ids, buffers.normed)
        self._embedding_norm(buffers.normed, out=buffers.normed)
        self._hidden_norm(states.contiguous(), out=buffers.added)
        both = torch.cat((buffers.normed, buffers.added), dim=1)
        result = torch.empty(tokens, hidden)
        with cores_for_the_pool():
            self._projection(both, buffers.hidden)
            self._layer(buffers, Reach.of(cache, tokens), 0, self._executor)
            self._final_norm(buffers.hidden, out=result)
        cache.length += tokens
        return result

    @torch.inference_mode()
    def logits(self, state: torch.Tensor) -> torch.Tensor:
        """Return the logits, new float32 [vocab_size], of the token behind the one whose state [1, hidden_size] is."""
        result = torch.empty(self._network.vocab_size)
        with cores_for_the_pool():
            self._head(state, result)
        return result
