"""Slots: which experts the device half computes, and the weights in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.device.weights import Uploader
from strata_runtime.errors import UserError
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.experts import expert_scales, in_format
from strata_runtime.layers.pool import PoolCompute


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """Where a layer's three matrices lie in a slot, in bytes from its begin; gate and up have one format."""

    gate_format: str
    down_format: str
    gate: int
    up: int
    down: int
    bytes: int

    @staticmethod
    def of(uploader: Uploader, weights: LayerWeights, wanted: FormatInfo | None, layer: int) -> SlotLayout:
        """Lay out a slot. Raises `UserError` where gate and up have different formats."""
        gate, up, down = (weights.experts[role][0] for role in EXPERT_ROLES)
        gate_form, up_form, down_form = (wanted or matrix.form for matrix in (gate, up, down))
        if gate_form.name != up_form.name:
            raise UserError(
                f"the experts of layer {layer}, of those that have experts, have gate matrices in {gate_form.name} and "
                f"up matrices in {up_form.name}, and a slot takes one format for both: choose one with "
                "engine.expert_format, or set expert.cache to 0"
            )
        pairs = ((gate_form, gate), (up_form, up), (down_form, down))
        sizes = [uploader.bytes(form.name, matrix.shape) for form, matrix in pairs]
        return SlotLayout(gate_form.name, down_form.name, 0, sizes[0], sizes[0] + sizes[1], sum(sizes))

    @property
    def offsets(self) -> tuple[int, int, int]:
        """Where gate, up and down begin."""
        return self.gate, self.up, self.down


class Residency:
    """Slots of all layers, numbered through, each `stride` bytes from `address` on, in the memory of a device.

    `table`: the slot of every expert, int32 [layers, experts], -1 for the CPU's; `tables`: its rows on the device.
    `scales`: of gate, up and down by slot, float32 [3, slots] there.
    """

    def __init__(
        self,
        host: PoolCompute,
        uploader: Uploader,
        layers: Sequence[LayerWeights],
        wanted: FormatInfo | None,
        placed: Sequence[tuple[int, int]],
    ) -> None:
        """Copy the weights of `placed`, (layer, expert) by slot; layers are those with routed experts.

        `wanted`: the format that experts are kept in, None for the stored one. Raises `UserError` when there is no
        memory for them.
        """
        experts = max((len(layer.experts[EXPERT_ROLES[0]]) for layer in layers), default=0)
        self.slots = len(placed)
        self.table: NDArray[np.int32] = np.full((len(layers), experts), -1, np.int32)
        self.layouts = (
            tuple(SlotLayout.of(uploader, layer, wanted, at) for at, layer in enumerate(layers)) if placed else ()
        )
        self.stride = max((layout.bytes for layout in self.layouts), default=0)
        scales = torch.ones(3, max(self.slots, 1))
        try:
            self._memory = uploader.room(self.slots * self.stride)
        except (RuntimeError, MemoryError):
            raise UserError(f"no memory for {self.slots} slots of experts: lower expert.cache") from None
        uploader.fill(self._pieces(host, layers, wanted, placed))
        for slot, (layer, expert) in enumerate(placed):
            self.table[layer, expert] = slot
            for part, role in enumerate(EXPERT_ROLES):
                known = expert_scales(layers[layer].tensors, role)
                scales[part, slot] = known[expert] if known else 1.0
        self.scales = scales.to(uploader.device)
        self.tables = tuple(torch.from_numpy(self.table).to(uploader.device).unbind(0))

    @property
    def address(self) -> int:
        """Where the first slot begins."""
        return self._memory.data_ptr()

    @property
    def is_complete(self) -> bool:
        """Whether every expert has a slot now."""
        return self.slots > 0 and int(self.table.min()) >= 0

    def row(self, layer: int) -> int:
        """Return the address of a layer's row of `table`."""
        return int(self.table.ctypes.data) + layer * self.table.strides[0]

    def _pieces(
        self,
        host: PoolCompute,
        layers: Sequence[LayerWeights],
        wanted: FormatInfo | None,
        placed: Sequence[tuple[int, int]],
    ) -> Iterator[tuple[Stored, torch.Tensor]]:
        for slot, (layer, expert) in enumerate(placed):
            for role, offset in zip(EXPERT_ROLES, self.layouts[layer].offsets, strict=True):
                matrix = layers[layer].experts[role][expert]
                kept = matrix if wanted is None else in_format(host, matrix, wanted)
                yield kept, self._memory[slot * self.stride + offset :]
