"""Gated MLPs: the dense layers', and the shared experts'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.compute import Activation, Compute
from strata_runtime.layers.executor import Executor
from strata_runtime.layers.linear import Linear


class Mlp:
    """down(silu(gate(x)) * up(x))."""

    __slots__ = ("_compute", "_down", "_gate_up", "width")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], kind: Literal["dense", "shared"]) -> None:
        """`tensors`: a layer's tensors by role; those of `kind` are used."""
        self._compute = compute
        matrices = {role: stored for role, stored in tensors.items() if role in _ROLES[kind]}
        self._gate_up = Linear(compute, matrices, f"{kind}_gate", f"{kind}_up")
        self._down = Linear(compute, matrices, f"{kind}_down")
        self.width = tensors[f"{kind}_gate"].shape[0]

    def __call__(self, buffers: Buffers) -> None:
        """Write the MLP of `buffers.normed` to `buffers.added`."""
        self._down(self._middle(buffers), buffers.added)

    def add(self, buffers: Buffers) -> None:
        """Add the MLP of `buffers.normed` to `buffers.hidden`."""
        self._down.add(self._middle(buffers), buffers.hidden, buffers.added)

    def _middle(self, buffers: Buffers) -> Activation:
        gate = self._compute.narrow(buffers.gate, self.width)
        up = buffers.up.view(-1)[: gate.values.numel()].view(gate.values.shape)
        self._gate_up(buffers.normed, gate.values, up)
        self._compute.silu_multiply(gate.values, up, gate)
        return gate


_ROLES = {kind: frozenset(f"{kind}_{part}" for part in ("gate", "up", "down")) for kind in ("dense", "shared")}


class DenseMlp:
    """The MLP of a layer without routed experts."""

    __slots__ = ("_mlp", "width")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored]) -> None:
        """`tensors`: a layer's tensors by role."""
        self._mlp = Mlp(compute, tensors, "dense")
        self.width = self._mlp.width

    def __call__(self, buffers: Buffers, executor: Executor) -> None:
        """Add the layer's result for `buffers.normed` to `buffers.hidden`."""
        self._mlp.add(buffers)
        executor.laps.lap("experts")
