"""What the runtime knows of a weight format, and the reference decoder. Kernels packages fill the table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]

_DTYPES = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "i8": "i1", "u8": "u1"}


@dataclass(frozen=True, slots=True)
class Field:
    """`count` values of `type` (f32, f16, bf16, i8, u8; little-endian) from byte `offset` of a block on."""

    type: str
    offset: int
    count: int

    def read(self, blocks: Bytes) -> Floats:
        """Read the field of every block: uint8 [n, block_bytes] to float32 [n, count]."""
        dtype: np.dtype[Any] = np.dtype(_DTYPES[self.type])
        packed = np.ascontiguousarray(blocks[:, self.offset : self.offset + self.count * dtype.itemsize])
        values = packed.view(dtype)
        if self.type == "bf16":
            return (values.astype(np.uint32) << 16).view(np.float32)
        return values.astype(np.float32)


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """One weight format: value[i] = quant[i], times `scale` when there is one.

    `activation` is the form in which kernels take inputs: `float`, or `int8` (blocks of 32 with a float scale).
    `safetensors` and `gguf` name the same bits in those files (dtype, tensor type), None when there is none.
    """

    name: str
    title: str
    help: str
    block_elements: int
    block_bytes: int
    quant: Field
    scale: Field | None
    activation: str
    safetensors: str | None
    gguf: str | None

    def row_bytes(self, columns: int) -> int:
        """Bytes of a row of `columns` values. Raises ValueError when blocks do not divide it."""
        if columns % self.block_elements:
            raise ValueError(
                f"a row of {columns} values cannot be stored as {self.name}: "
                f"its blocks hold {self.block_elements} values each"
            )
        return columns // self.block_elements * self.block_bytes

    def decode(self, blocks: Bytes) -> Floats:
        """Decode stored rows: uint8 [..., n * block_bytes] to float32 [..., n * block_elements].

        Raises ValueError when the last axis is not a whole number of blocks.
        """
        if blocks.shape[-1] % self.block_bytes:
            raise ValueError(f"{blocks.shape[-1]} bytes are no whole number of {self.block_bytes}-byte blocks")
        count = blocks.shape[-1] // self.block_bytes
        rows = np.ascontiguousarray(blocks, dtype=np.uint8).reshape(-1, self.block_bytes)
        values = self.quant.read(rows)
        if self.scale is not None:
            with np.errstate(invalid="ignore"):  # 0 * infinity is NaN, as in C++
                values = values * self.scale.read(rows)
        return values.reshape(*blocks.shape[:-1], count * self.block_elements)
