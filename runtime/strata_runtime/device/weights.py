"""Weights as device kernels read them, in the memory of a device."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import c_uint8
from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.placing import Place
from strata_runtime.memory import release
from strata_runtime.native import NativeModule
from strata_runtime.native_device import DeviceMatrix

_ALIGNMENT = 256
_PIECE_BYTES = 8 << 20  # that are arranged at a time
GROUP = 16
"""Rows that stand side by side in the layout of device matrices."""


@dataclass(frozen=True, slots=True)
class Placed:
    """A matrix in device memory, and what keeps it there."""

    matrix: DeviceMatrix
    owner: torch.Tensor


class Uploader:
    """Arranges stored matrices and copies them to a device, several pieces at a time."""

    def __init__(self, native: NativeModule, device: torch.device, threads: int) -> None:
        """`threads`: that arrange pieces."""
        self.device = device
        self.threads = threads
        self._native = native

    def place(self, stored: Stored, scale: float = 1.0) -> Placed:
        """Bring one matrix to memory of its own. Raises torch's error when the device has none left."""
        memory = self.room(self.bytes(stored.form.name, stored.shape))
        self.fill([(stored, memory)])
        rows, columns = stored.shape
        return Placed((stored.form.name, rows, columns, memory.data_ptr(), scale), memory)

    def room(self, size: int) -> torch.Tensor:
        """Allocate so many bytes: uint8, aligned for all kernels."""
        memory = torch.empty(size + _ALIGNMENT, dtype=torch.uint8, device=self.device)
        return memory[-memory.data_ptr() % _ALIGNMENT :][:size]

    def bytes(self, form: str, shape: tuple[int, ...]) -> int:
        """Memory that a matrix takes, rounded up so that the next one is aligned."""
        rows, columns = shape
        return -(-self._native.device.matrix_bytes(form, rows, columns) // _ALIGNMENT) * _ALIGNMENT

    def is_arranged(self, matrix: Stored, place: Place) -> bool:
        """Whether a matrix is arranged in the host's memory as devices read it."""
        return place.layout is not None and place.layout.rows == GROUP and matrix.shape[0] % GROUP == 0

    def fill(self, places: Iterable[tuple[Stored, torch.Tensor]]) -> None:
        """Write matrices to the begin of given memory on the device."""
        with ThreadPoolExecutor(self.threads) as pool:
            going: deque[Future[None]] = deque()
            for stored, to in places:
                if len(going) >= 2 * self.threads:
                    going.popleft().result()
                going.append(pool.submit(self._write, stored, to))
            for each in going:
                each.result()

    @torch.inference_mode()
    def _write(self, stored: Stored, to: torch.Tensor) -> None:
        rows, columns = stored.shape
        row_bytes = len(stored.data) // max(1, rows)
        step = max(1, _PIECE_BYTES // max(1, row_bytes * GROUP)) * GROUP
        name, device, at = stored.form.name, self._native.device, 0
        for first in range(0, rows, step):
            piece = stored.rows(first, min(rows, first + step))
            size = device.matrix_bytes(name, piece.shape[0], columns)
            there = to[at : at + size]
            staged = there if there.device.type == "cpu" else torch.empty(size, dtype=torch.uint8)
            device.arrange(name, piece.shape[0], columns, piece.address, staged.data_ptr())
            if staged is not there:
                there.copy_(staged)
            release(piece.data)
            at += size


def memory_at(address: int, size: int) -> torch.Tensor:
    """Look at memory of the host, uint8. It must outlive what is returned."""
    return torch.frombuffer((c_uint8 * size).from_address(address), dtype=torch.uint8)
