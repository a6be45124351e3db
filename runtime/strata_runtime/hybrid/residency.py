"""Slots: which experts the device half computes, and the weights in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.errors import UserError
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.experts import expert_scales, in_format
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.native_device import DeviceKernels

_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class SlotLayout:
    """Where a layer's three device matrices lie in a slot, in bytes from its begin; gate and up have one format.

    `takes_integers`: whether gate and up read their inputs quantised, and whether down does.
    """

    gate_format: str
    down_format: str
    takes_integers: tuple[bool, bool]
    gate: int
    up: int
    down: int
    bytes: int

    @staticmethod
    def of(device: DeviceKernels, weights: LayerWeights, wanted: FormatInfo | None, layer: int) -> SlotLayout:
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
        sizes = [_aligned(device.matrix_bytes(form.name, *matrix.shape)) for form, matrix in pairs]
        takes_integers = (gate_form.activation != "float", down_form.activation != "float")
        offsets = (0, sizes[0], sizes[0] + sizes[1])
        return SlotLayout(gate_form.name, down_form.name, takes_integers, *offsets, sum(sizes))


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


class Residency:
    """Slots of all layers, numbered through, each `stride` bytes from `address` on.

    `table`: the slot of every expert, int32 [layers, experts], -1 for the CPU's. `scales`: of gate, up and down by
    slot, float32 [3, slots].
    """

    def __init__(
        self,
        compute: PoolCompute,
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
        device = compute.native.device
        self.layouts = tuple(SlotLayout.of(device, layer, wanted, at) for at, layer in enumerate(layers) if placed)
        self.stride = max((layout.bytes for layout in self.layouts), default=0)
        self.scales: NDArray[np.float32] = np.ones((3, max(self.slots, 1)), np.float32)
        try:
            self._memory = np.empty(self.slots * self.stride + _ALIGNMENT, np.uint8)
        except MemoryError:
            raise UserError(f"no memory for {self.slots} slots of experts: lower expert.cache") from None
        self.address = _aligned(self._memory.ctypes.data)
        for slot, (layer, expert) in enumerate(placed):
            self._fill(compute, slot, layers[layer], expert, wanted, self.layouts[layer])
            self.table[layer, expert] = slot

    @property
    def is_complete(self) -> bool:
        """Whether every expert has a slot now."""
        return self.slots > 0 and int(self.table.min()) >= 0

    def row(self, layer: int) -> int:
        """Return the address of a layer's row of `table`."""
        return int(self.table.ctypes.data) + layer * self.table.strides[0]

    def _fill(
        self,
        compute: PoolCompute,
        slot: int,
        weights: LayerWeights,
        expert: int,
        wanted: FormatInfo | None,
        layout: SlotLayout,
    ) -> None:
        begin = self.address + slot * self.stride
        offsets = (layout.gate, layout.up, layout.down)
        for part, (role, offset) in enumerate(zip(EXPERT_ROLES, offsets, strict=True)):
            matrix = weights.experts[role][expert]
            kept = matrix if wanted is None else in_format(compute, matrix, wanted)
            rows, columns = kept.shape
            compute.native.device.arrange(kept.form.name, rows, columns, kept.address, begin + offset)
            scales = expert_scales(weights.tensors, role)
            self.scales[part, slot] = scales[expert] if scales else 1.0
