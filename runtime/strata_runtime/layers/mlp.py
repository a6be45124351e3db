"""Gated MLPs: the dense layers', and the shared experts'."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch.nn.functional import silu

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.by_token import by_token
from strata_runtime.layers.executor import Executor
from strata_runtime.layers.linear import Compute, Linear


def _silu(x: torch.Tensor) -> None:
    silu(x, inplace=True)


class Mlp:
    """down(silu(gate(x)) * up(x))."""

    __slots__ = ("_down", "_gate", "_up", "width")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], kind: Literal["dense", "shared"]) -> None:
        """`tensors`: a layer's tensors by role; those of `kind` are used."""
        self._gate = Linear(compute, tensors[f"{kind}_gate"])
        self._up = Linear(compute, tensors[f"{kind}_up"])
        self._down = Linear(compute, tensors[f"{kind}_down"])
        self.width = tensors[f"{kind}_gate"].shape[0]

    def __call__(self, buffers: Buffers) -> None:
        """Write the MLP of `buffers.normed` to `buffers.added`."""
        shape = (buffers.tokens, self.width)
        size = buffers.tokens * self.width
        gate, up = buffers.gate[:size].view(shape), buffers.up[:size].view(shape)
        self._gate(buffers.normed, gate)
        self._up(buffers.normed, up)
        by_token(gate, _silu)
        gate.mul_(up)
        self._down(gate, buffers.added)


class DenseMlp:
    """The MLP of a layer without routed experts."""

    __slots__ = ("_mlp", "width")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored]) -> None:
        """`tensors`: a layer's tensors by role."""
        self._mlp = Mlp(compute, tensors, "dense")
        self.width = self._mlp.width

    def __call__(self, buffers: Buffers, executor: Executor) -> None:
        """Add the layer's result for `buffers.normed` to `buffers.hidden`."""
        self._mlp(buffers)
        buffers.hidden.add_(buffers.added)
        executor.laps.lap("experts")
