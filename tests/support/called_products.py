"""The device kernels that read weights, and what makes their inputs, among those whose calls are remembered."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata_runtime.native_device import HOST_STREAM, DeviceMatrix, FloatType, quantized_bytes
from support.called_layers import CalledLayerKernels
from support.device_reference import PLAN
from support.kernels import Array, Floats, Stored, address


class CalledProducts(CalledLayerKernels):
    """Products on the device by their specs' names."""

    def _device(self, name: str, method: str | None = None) -> Any:
        self._note(name)
        return partial(getattr(self.native.device, method or name), stream=HOST_STREAM)

    def device_matrix(self, weights: Stored) -> NDArray[np.uint8]:
        """The bytes of a device matrix, aligned."""
        form = (weights.format.name, weights.rows, weights.columns)
        memory = _aligned(self.native.device.matrix_bytes(*form))
        self.native.device.arrange(*form, address(weights.blocks), address(memory))
        return memory

    def quantize_rows(self, x: Floats) -> NDArray[np.uint8]:
        """Inputs [rows, columns] in blocks of 32 integers."""
        q = _aligned(quantized_bytes(*x.shape))
        self._device("quantize_rows")(*x.shape, address(x), address(q))
        return q

    def _inputs(self, weights: Stored, x: Floats) -> NDArray[np.uint8]:
        return self.quantize_rows(x) if weights.format.quants is not None else np.zeros(16, np.uint8)

    def window_linear(self, weights: Stored, x: Floats, scale: float, before: Floats) -> Floats:
        """before [tokens, rows] + scale * (x @ weights.T)."""
        memory, q, out = self.device_matrix(weights), self._inputs(weights, x), before.copy()
        matrix: DeviceMatrix = (weights.format.name, weights.rows, weights.columns, address(memory), scale)
        where = (len(x), address(x), address(q), True)
        self._device("window_linear", "linear")([(matrix, address(out))], *where)
        return out

    def to_floats(self, weights: Stored, dtype: FloatType, scale: float) -> Array:
        """The decoded rows times a scale, alone and once more as one of several; their bits."""
        memory = self.device_matrix(weights)
        name, shape = weights.format.name, (weights.rows, weights.columns)
        out = np.zeros((3, *shape), np.float32 if dtype == "f32" else np.uint16)
        self._device("to_floats")((name, *shape, address(memory), scale), dtype, address(out[0]))
        addresses, scales = np.full(2, address(memory), np.int64), np.array([scale, 1], np.float32)
        where = (address(addresses), 2, address(scales), dtype, address(out[1:]))
        self._device("to_floats", "to_floats_many")(name, *shape, *where)
        return out

    def expert_gate_up(self, gate: Stored, up: Stored, x: Floats) -> tuple[Floats, NDArray[np.uint8]]:
        """silu(gate(x)) * up(x) [tokens, width] of one expert in slot 0, and the same quantised."""
        tokens, hidden, width = len(x), gate.columns, gate.rows
        plan, first = _one_group(tokens), self.device_matrix(gate)
        slots = _aligned(2 * first.nbytes)
        slots[:] = np.concatenate([first, self.device_matrix(up)])
        middle, q = np.full((tokens, width), np.nan, np.float32), self._inputs(gate, x)
        middle_q = _aligned(quantized_bytes(tokens, width))
        outputs = (address(middle), address(middle_q))
        places = (address(plan), address(slots), slots.nbytes, 0, first.nbytes, 0, 0, address(x), address(q), *outputs)
        self._device("expert_gate_up")(gate.format.name, tokens, 1, hidden, width, *places)
        return middle, middle_q

    def expert_down(self, down: Stored, middle: Floats) -> Floats:
        """Rows [tokens, hidden] of one expert in slot 0."""
        tokens, hidden, width = len(middle), down.rows, down.columns
        plan, rows = _one_group(tokens), np.full((tokens, hidden), np.nan, np.float32)
        slots, q = self.device_matrix(down), self._inputs(down, middle)
        places = (address(plan), address(slots), slots.nbytes, 0, 0, address(middle), address(q), address(rows))
        self._device("expert_down")(down.format.name, tokens, 1, hidden, width, *places)
        return rows


def _aligned(size: int) -> NDArray[np.uint8]:
    """Zeroed bytes that begin at a multiple of 64."""
    memory = np.zeros(size + 64, np.uint8)
    first = -address(memory) % 64
    return memory[first : first + size]


def _one_group(tokens: int) -> Array:
    """A plan of one expert, in slot 0, for all tokens."""
    plan = np.zeros(1, PLAN)
    plan["groups"], plan["device_entries"] = 1, tokens
    plan["group"][0, 0] = (0, 0, tokens, 0)
    plan["entries"][0, :tokens] = np.arange(tokens)
    return plan
