"""Slots: which experts the device half computes, and the weights in them."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.device.weights import Uploader
from strata_runtime.errors import UserError
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.hybrid.reading import ExpertMemory
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

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Bytes of gate, up and down."""
        return self.up - self.gate, self.down - self.up, self.bytes - self.down

    def parts(self, slot: torch.Tensor) -> list[torch.Tensor]:
        """Return the memory of gate, up and down in that of a slot, uint8 each."""
        pairs = zip(self.offsets, self.sizes, strict=True)
        return [slot[offset : offset + size] for offset, size in pairs]


def slot_bytes(uploader: Uploader, layers: Sequence[LayerWeights], wanted: FormatInfo | None) -> int:
    """Return the bytes of one slot, which any expert of the layers fits."""
    return max(SlotLayout.of(uploader, layer, wanted, at).bytes for at, layer in enumerate(layers))


def row_of(table: NDArray[Any] | None, layer: int) -> int:
    """Return the address of a layer's row; 0 without a table."""
    return 0 if table is None else int(table.ctypes.data) + layer * table.strides[0]


@dataclass(frozen=True, slots=True)
class Move:
    """An expert, (layer, number), that comes to a free slot, and one that gives up its own."""

    comes: tuple[int, int]
    slot: int
    goes: tuple[int, int]


class Residency:
    """Slots of all layers, numbered through, each `stride` bytes from `address` on, in the memory of a device.

    `table`: the slot of every expert, int32 [layers, experts], -1 for the CPU's; `tables`: its rows on the device.
    `scales`: of gate, up and down by slot, float32 [3, slots] there. `free`: slots without an expert.
    `entries`: int64 [2], what windows asked for: entries whose expert had a slot, and all.
    """

    def __init__(
        self,
        host: PoolCompute,
        uploader: Uploader,
        layers: Sequence[LayerWeights],
        wanted: FormatInfo | None,
        placed: Sequence[tuple[int, int]],
        spare: int = 0,
    ) -> None:
        """Copy the weights of `placed`, (layer, expert) by slot; layers are those with routed experts.

        `spare`: slots more, which are free. `wanted`: the format that experts are kept in, None for the stored one.
        Raises `UserError` when there is no memory for them.
        """
        experts = max((len(layer.experts[EXPERT_ROLES[0]]) for layer in layers), default=0)
        self.slots = len(placed) + spare
        self.free = list(range(len(placed), self.slots))
        self.table: NDArray[np.int32] = np.full((len(layers), experts), -1, np.int32)
        self.entries: NDArray[np.int64] = np.zeros(2, np.int64)
        self.layouts = (
            tuple(SlotLayout.of(uploader, layer, wanted, at) for at, layer in enumerate(layers)) if self.slots else ()
        )
        self.stride = max((layout.bytes for layout in self.layouts), default=0)
        self._layers = layers
        self._lock, self._readers = threading.Lock(), 0
        self._scales = torch.ones(3, max(self.slots, 1))
        try:
            self._memory = uploader.room(self.slots * self.stride)
        except (RuntimeError, MemoryError):
            raise UserError(f"no memory for {self.slots} slots of experts: lower expert.cache") from None
        uploader.fill(self._pieces(host, layers, wanted, placed))
        for slot, (layer, expert) in enumerate(placed):
            self._enter(layer, expert, slot)
        self.scales = self._scales.to(uploader.device)
        self._on_device = torch.from_numpy(self.table).to(uploader.device)
        self.tables = tuple(self._on_device.unbind(0))

    @property
    def address(self) -> int:
        """Where the first slot begins."""
        return self._memory.data_ptr()

    @property
    def is_complete(self) -> bool:
        """Whether every expert has a slot now."""
        return self.slots > 0 and int(self.table.min()) >= 0

    def memory(self, layer: int) -> ExpertMemory:
        """Return where kernels read a layer's experts, by slot."""
        layout, address, stride = self.layouts[layer], self.address, self.stride
        gate, down = address + layout.gate, address + layout.down
        scales = (row.data_ptr() for row in self.scales)
        formats = layout.gate_format, layout.down_format
        return ExpertMemory(*formats, gate, stride, layout.up - layout.gate, down, stride, *scales)

    def place(self, slot: int) -> torch.Tensor:
        """Return the memory of a slot: uint8 [stride] on the device."""
        return self._memory[slot * self.stride : (slot + 1) * self.stride]

    @contextmanager
    def read(self) -> Iterator[None]:
        """Keep every slot as it is for a while. Any thread may."""
        with self._lock:
            self._readers += 1
        try:
            yield
        finally:
            with self._lock:
                self._readers -= 1

    def exchange(self, moves: Sequence[Move]) -> bool:
        """Give experts the free slots that their weights are in, and free those of others, unless somebody reads.

        Returns whether it was done. What begins to read after that sees it, on the device too.
        """
        with self._lock:
            if self._readers:
                return False
            for move in moves:
                self.free.remove(move.slot)
                self.free.append(int(self.table[move.goes]))
                self.table[move.goes] = -1
                self._enter(*move.comes, move.slot)
            if self._on_device.device.type != "cpu":
                # Not beside what this thread does next: another stream may read them then.
                self._on_device.copy_(torch.from_numpy(self.table))
                self.scales.copy_(self._scales)
            return True

    def _enter(self, layer: int, expert: int, slot: int) -> None:
        self.table[layer, expert] = slot
        for part, role in enumerate(EXPERT_ROLES):
            known = expert_scales(self._layers[layer].tensors, role)
            self._scales[part, slot] = known[expert] if known else 1.0

    def row(self, layer: int) -> int:
        """Return the address of a layer's row of `table`."""
        return row_of(self.table, layer)

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
