"""Activations of one pass, allocated once per number of tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.layers.compute import Activation, Compute
from strata_runtime.params import MAX_WINDOW


@dataclass(frozen=True, slots=True)
class Buffers:
    """Everything that a layer writes. Contiguous float32 [tokens, ...] where nothing else is said.

    `gate` and `up` have `mlp_width` columns; a narrower layer uses the begin of their memory. `added` is what is about
    to be added to `hidden`, or scratch.
    """

    tokens: int
    hidden: torch.Tensor
    normed: Activation
    added: torch.Tensor
    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    attended: Activation
    gate: Activation
    up: torch.Tensor
    router: torch.Tensor
    expert_ids: torch.Tensor
    expert_rows: torch.Tensor

    def first(self, tokens: int) -> Buffers:
        """Look at the begin of the memory as at the buffers of a pass over fewer tokens."""
        top_k = self.expert_ids.shape[1]
        return Buffers(
            tokens=tokens,
            hidden=self.hidden[:tokens],
            normed=Activation(self.normed.values[:tokens]),
            added=self.added[:tokens],
            q=self.q[:tokens],
            k=self.k[:tokens],
            v=self.v[:tokens],
            attended=Activation(self.attended.values[:tokens]),
            gate=Activation(self.gate.values[:tokens]),
            up=self.up[:tokens],
            router=self.router[:tokens],
            expert_ids=self.expert_ids[:tokens],
            expert_rows=self.expert_rows[: tokens * top_k],
        )


def make_buffers(compute: Compute, network: Network, mlp_width: int, tokens: int) -> Buffers:
    """Allocate the buffers of a pass over `tokens` tokens (at least 1)."""
    hidden, queries, keys = network.hidden_size, network.heads * network.head_dim, network.kv_heads * network.head_dim
    return Buffers(
        tokens=tokens,
        hidden=compute.empty(tokens, hidden),
        normed=compute.activation(tokens, hidden),
        added=compute.empty(tokens, hidden),
        q=compute.empty(tokens, queries),
        k=compute.empty(tokens, keys),
        v=compute.empty(tokens, keys),
        attended=compute.activation(tokens, queries),
        gate=compute.activation(tokens, mlp_width),
        up=compute.empty(tokens, mlp_width),
        router=compute.empty(tokens, network.experts),
        expert_ids=compute.empty(tokens, network.top_k, dtype=torch.int32),
        expert_rows=compute.empty(tokens * network.top_k, hidden),
    )


class Workspace:
    """Buffers of every lane, by number of tokens: kept for each up to `MAX_WINDOW`, and for the largest one."""

    __slots__ = ("_compute", "_large", "_mlp_width", "_network", "_small")

    def __init__(self, compute: Compute, network: Network, mlp_width: int) -> None:
        """`mlp_width`: the widest of the dense and shared MLPs."""
        self._compute, self._network, self._mlp_width = compute, network, mlp_width
        self._small: dict[tuple[int, int], Buffers] = {}
        self._large: dict[int, Buffers] = {}

    def buffers(self, tokens: int) -> Buffers:
        """Return the buffers of a pass on the calling thread's lane; what is in them is undefined."""
        lane = self._compute.lanes.current
        if tokens <= MAX_WINDOW:
            if (lane, tokens) not in self._small:
                self._small[lane, tokens] = self._make(tokens)
            return self._small[lane, tokens]
        large = self._large.get(lane)
        if large is None or large.tokens < tokens:
            large = None
            self._large.pop(lane, None)  # so that the old ones are gone before the new ones come
            large = self._large[lane] = self._make(tokens)
        # What is there stays: nothing may be allocated or freed while windows run beside a prompt.
        return large if large.tokens == tokens else large.first(tokens)

    def _make(self, tokens: int) -> Buffers:
        return make_buffers(self._compute, self._network, self._mlp_width, tokens)
