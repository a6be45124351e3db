"""Experts where kernels of prompts read them: in slots, or copied from the host's memory when they are needed."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.prompts import Matrices, Triple
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.hybrid.residency import Residency, SlotLayout
from strata_runtime.layers.experts import LoadedExperts, expert_scales, in_format
from strata_runtime.layers.pool import PoolCompute


class SlotStore:
    """Implements `ExpertStore`. For one thread."""

    def __init__(
        self,
        device: DeviceCompute,
        host: PoolCompute,
        residency: Residency,
        layers: Sequence[LayerWeights],
        wanted: FormatInfo | None,
        experts: Sequence[LoadedExperts],
    ) -> None:
        """`layers`: those with routed experts, and `experts` what was loaded of each."""
        self._device, self._host, self._residency = device, host, residency
        self._layers, self._wanted, self._experts = layers, wanted, experts
        uploader = device.uploader
        self._layouts = [SlotLayout.of(uploader, layer, wanted, at) for at, layer in enumerate(layers)]
        self._scales = [
            [
                torch.tensor(expert_scales(layer.tensors, role) or [1.0] * residency.table.shape[1])
                for role in EXPERT_ROLES
            ]
            for layer in layers
        ]
        self._staged: list[torch.Tensor] = []
        self._turn = 0

    def on_device(self, layer: int, experts: range) -> Triple:
        """See `ExpertStore`."""
        residency, layout = self._residency, self._layouts[layer]
        slots = residency.table[layer, experts.start : experts.stop]
        begins = residency.address + residency.stride * torch.from_numpy(slots.astype("int64"))
        missing = [number for number, slot in enumerate(slots) if slot < 0]
        if missing:
            staged = self._stage(len(experts), layout.bytes)
            for number in missing:
                begins[number] = staged.data_ptr() + number * layout.bytes
                self._copy(layer, experts[number], staged[number * layout.bytes :])
        sizes = self._sizes(layer)
        gate, up, down = (
            Matrices(
                form,
                *shape,
                (begins + offset).to(self._device.device),
                scales[experts.start : experts.stop].to(self._device.device),
            )
            for form, shape, offset, scales in zip(
                (layout.gate_format, layout.gate_format, layout.down_format),
                sizes,
                layout.offsets,
                self._scales[layer],
                strict=True,
            )
        )
        return gate, up, down

    def _sizes(self, layer: int) -> list[tuple[int, int]]:
        shapes = (self._layers[layer].experts[role][0].shape for role in EXPERT_ROLES)
        return [(shape[0], shape[1]) for shape in shapes]

    def _stage(self, experts: int, size: int) -> torch.Tensor:
        """Return memory of the device that was not used for the last call."""
        room = experts * size
        if not self._staged or self._staged[0].numel() < room:
            self._staged = [self._device.uploader.room(room) for _ in range(2)]
        self._turn = 1 - self._turn
        return self._staged[self._turn]

    def _copy(self, layer: int, expert: int, to: torch.Tensor) -> None:
        weights, layout = self._layers[layer], self._layouts[layer]
        places = self._experts[layer].places
        for role, offset, held in zip(EXPERT_ROLES, layout.offsets, places, strict=True):
            matrix = weights.experts[role][expert]
            there = to[offset:]
            arranged = self._device.uploader.arranged(matrix, held[expert])
            if arranged is not None:
                there[: arranged.numel()].copy_(arranged, non_blocking=True)
                continue
            kept = matrix if self._wanted is None else in_format(self._host, matrix, self._wanted)
            self._device.uploader.fill([(kept, there)])
