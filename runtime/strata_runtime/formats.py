"""What the runtime knows of a weight format, and the reference decoder. Kernels packages fill the table."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Floats = NDArray[np.float32]
Numbers = NDArray[np.int64]

_DTYPES = {"f32": "<f4", "f16": "<f2", "bf16": "<u2", "e8m0_half": "u1"}


@dataclass(frozen=True, slots=True)
class Field:
    """`count` floats of `type` (f32, f16, bf16, e8m0_half; little-endian) from byte `offset` of a block on."""

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
        if self.type == "e8m0_half":
            return np.ldexp(np.float32(1), values.astype(np.int32) - 128)
        return values.astype(np.float32)


@dataclass(frozen=True, slots=True)
class Plane:
    """Some bits of every number: `bits` of them from bit `start + sum(strides * digits)`, counted from `byte` on.

    They become bits `to` and up. `when` restricts the plane to elements with certain digits; None leaves one free.
    """

    byte: int
    bits: int
    start: int
    to: int
    strides: tuple[int, ...]
    when: tuple[int | None, ...]
    signed: bool

    def read(self, blocks: Bytes, digits: Numbers) -> Numbers:
        """Read the bits of every element: uint8 [n, block_bytes] and digits [digits, count] to int64 [n, count]."""
        address = self.start + np.asarray(self.strides) @ digits
        has = np.ones(digits.shape[1], bool)
        for digit, wanted in zip(digits, self.when, strict=True):
            has &= (digit == wanted) if wanted is not None else True
        address[~has] = 0
        values = (blocks[:, self.byte + address // 8] >> (address % 8)) & ((1 << self.bits) - 1)
        wide = (values.astype(np.uint8).view(np.int8) if self.signed else values).astype(np.int64)
        return np.where(has, wide << self.to, 0)


@dataclass(frozen=True, slots=True)
class Integers:
    """Numbers packed into a block: lookup(bits of the planes) * times + offset, negated where `signs` has a 1.

    `digits` are the radices of an element's index, slowest first. The lookup is in `table`, or among `points` (words
    of digits that name `levels`), whose value the last digit picks.
    """

    digits: tuple[int, ...]
    planes: tuple[Plane, ...]
    signs: Plane | None = None
    table: tuple[int, ...] = ()
    levels: tuple[int, ...] = ()
    points: str = ""
    times: int = 1
    offset: int = 0

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return math.prod(self.digits)

    def read(self, blocks: Bytes) -> Numbers:
        """Read all numbers of every block: uint8 [n, block_bytes] to int64 [n, count]."""
        digits = np.stack(np.unravel_index(np.arange(self.count), self.digits))
        numbers = np.zeros((len(blocks), self.count), np.int64)
        for plane in self.planes:
            numbers |= plane.read(blocks, digits)
        if self.table:
            numbers = np.asarray(self.table)[numbers]
        elif self.points:
            grid = np.array([[self.levels[int(digit)] for digit in point] for point in self.points.split()])
            numbers = grid[numbers, digits[-1]]
        numbers = numbers * self.times + self.offset
        return numbers if self.signs is None else np.where(self.signs.read(blocks, digits) != 0, -numbers, numbers)


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """One weight format: scale * scales[s] * quants[i] - minimum * minimums[s], or plain floats in `values`.

    s is the part of the block that i lies in; what is None is left out. `activation` is the form in which kernels take
    inputs: `float`, or blocks of signed bytes with a float scale, `int8` of 32 and `int8_256` of 256. `encodes` says
    whether kernels packages can make blocks. `safetensors` and `gguf` are the dtypes that mean the same bits in those
    files, None where there is none.
    """

    name: str
    title: str
    help: str
    block_elements: int
    block_bytes: int
    values: Field | None = None
    quants: Integers | None = None
    scale: Field | None = None
    scales: Integers | None = None
    minimum: Field | None = None
    minimums: Integers | None = None
    activation: str = "float"
    encodes: bool = False
    safetensors: str | None = None
    gguf: str | None = None

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
        with np.errstate(invalid="ignore", over="ignore"):  # infinities and NaN, as in C++
            values = self._values(rows)
        return values.reshape(*blocks.shape[:-1], count * self.block_elements)

    def _values(self, rows: Bytes) -> Floats:
        if self.values is not None:
            return self.values.read(rows)
        assert self.quants is not None
        quants = self.quants.read(rows).astype(np.float32)
        if self.scale is not None:
            quants = self._per_element(self.scale, self.scales, rows) * quants
        if self.minimum is not None:
            quants = quants - self._per_element(self.minimum, self.minimums, rows)
        return quants

    def _per_element(self, factor: Field, parts: Integers | None, rows: Bytes) -> Floats:
        """Return float32 [n, block_elements], or [n, 1] when one factor is for the whole block."""
        one = factor.read(rows)
        if parts is None:
            return one
        return np.repeat(one * parts.read(rows).astype(np.float32), self.block_elements // parts.count, axis=1)
