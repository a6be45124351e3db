"""The tensor table of a GGUF file, checked against the file before anything of it is used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strata_runtime.errors import UserError
from strata_runtime.gguf.cursor import NAME_AT_MOST, Cursor
from strata_runtime.gguf.metadata import Metadata, shown
from strata_runtime.gguf.types import BlockFormat, tensor_type

ALIGNMENT_KEY = "general.alignment"
ALIGNMENT = 32
ALIGNMENT_AT_MOST = 1 << 30
DIMENSIONS_AT_MOST = 4
TENSORS_AT_MOST = 1 << 18
_NUMBERS_AT_MOST = 1 << 63
_ENTRY_BYTES = 24  # the least: length of the name, count of dimensions, type, offset


@dataclass(frozen=True, slots=True, eq=False)
class GgufTensor:
    """One tensor, mapped: `start` is its place in bytes from the begin of the file at `path`.

    `shape` is row-major, [..., rows, columns]: the file's dimensions in reverse. `type` is the name of its format in
    GGUF files. `bytes` is None, and the data cannot be had, when none of the formats at hand has that name.
    """

    path: Path
    name: str
    shape: tuple[int, ...]
    type: str
    start: int
    bytes: int | None
    content: memoryview
    readable: tuple[str, ...]

    @property
    def data(self) -> memoryview:
        """The tensor's blocks, uncopied and read-only. Raises `UserError` when its type is not one of `readable`."""
        if self.bytes is None:
            raise UserError(
                f"{self.path}: tensor '{self.name}' is stored as {self.type}, which cannot be read; "
                f"what can be: {', '.join(self.readable) or 'nothing'}"
            )
        return self.content[self.start : self.start + self.bytes]

    @property
    def address(self) -> int:
        """Where `data` lies in memory, for as long as the tensor is kept."""
        return int(np.frombuffer(self.data, np.uint8).ctypes.data)


@dataclass(frozen=True, slots=True)
class _Entry:
    name: str
    shape: tuple[int, ...]
    type: str
    offset: int


def _entry(cursor: Cursor, index: int) -> _Entry:
    name = cursor.text(f"the name of tensor {index}", NAME_AT_MOST)
    if not name or not name.isprintable():
        raise UserError(f"{cursor.path}: the name of tensor {index} is {shown(name)}: the file is damaged")
    what = f"tensor '{name}'"
    rank = cursor.u32(what)
    if rank > DIMENSIONS_AT_MOST:
        raise UserError(f"{cursor.path}: {what} has {rank} dimensions, more than {DIMENSIONS_AT_MOST}")
    shape = tuple(reversed([cursor.u64(what) for _ in range(rank)]))
    if math.prod(max(size, 1) for size in shape) >= _NUMBERS_AT_MOST:
        raise UserError(f"{cursor.path}: {what} claims the shape {list(shape)}: the file is damaged")
    return _Entry(name, shape, tensor_type(cursor.u32(what)), cursor.u64(what))


def _bytes(path: Path, entry: _Entry, form: BlockFormat | None) -> int | None:
    if form is None:
        return None
    columns = entry.shape[-1] if entry.shape else 1
    if columns % form.block_elements:
        raise UserError(
            f"{path}: tensor '{entry.name}' has rows of {columns} values, "
            f"which blocks of {entry.type} ({form.block_elements} values) do not divide"
        )
    return math.prod(entry.shape) // form.block_elements * form.block_bytes


def read_alignment(metadata: Metadata) -> int:
    """Return what the offsets of tensors are multiples of, in bytes. Raises `UserError`."""
    alignment = metadata.whole(ALIGNMENT_KEY)
    if alignment is None:
        return ALIGNMENT
    if not 8 <= alignment <= ALIGNMENT_AT_MOST or alignment & (alignment - 1):
        raise metadata.wrong(ALIGNMENT_KEY, f"a power of two from 8 to {ALIGNMENT_AT_MOST}")
    return alignment


def _check_place(path: Path, tensor: GgufTensor, entry: _Entry, data_bytes: int, alignment: int) -> None:
    if entry.offset % alignment:
        raise UserError(f"{path}: tensor '{entry.name}' is at offset {entry.offset}, no multiple of {alignment}")
    # Data of a type without a size here takes one byte at least, unless the tensor is empty.
    least = tensor.bytes if tensor.bytes is not None else min(1, math.prod(entry.shape))
    if entry.offset + least > data_bytes:
        takes = f"has its data at offset {entry.offset}"
        if tensor.bytes is not None:
            takes = f"takes {tensor.bytes} bytes at offset {entry.offset}"
        raise UserError(
            f"{path}: tensor '{entry.name}' {takes}, but the file holds "
            f"{max(data_bytes, 0)} bytes of tensors: it is truncated or damaged, fetch it again"
        )


def _check_overlap(path: Path, tensors: list[GgufTensor]) -> None:
    end, previous = 0, ""
    filled = (tensor for tensor in tensors if math.prod(tensor.shape))
    for tensor in sorted(filled, key=lambda tensor: (tensor.start, tensor.bytes or 1)):
        if tensor.start < end:
            raise UserError(f"{path}: the bytes of tensors '{previous}' and '{tensor.name}' overlap")
        end, previous = tensor.start + (tensor.bytes or 1), tensor.name


def read_tensors(
    cursor: Cursor, count: int, metadata: Metadata, formats: Mapping[str, BlockFormat]
) -> dict[str, GgufTensor]:
    """Read the table of `count` tensors from the cursor's position. Raises `UserError`.

    After this, every tensor of one of `formats` lies inside the file with as many bytes as its shape needs, and
    overlaps no other.
    """
    path = cursor.path
    cursor.expect(count, _ENTRY_BYTES, "the tensor table")
    if count > TENSORS_AT_MOST:
        raise UserError(f"{path}: the tensor table has {count} entries, more than {TENSORS_AT_MOST}")
    alignment = read_alignment(metadata)
    entries: dict[str, _Entry] = {}
    for index in range(count):
        entry = _entry(cursor, index)
        if entry.name in entries:
            raise UserError(f"{path}: the tensor '{entry.name}' is given twice")
        entries[entry.name] = entry
    base = -(-cursor.position // alignment) * alignment
    readable = tuple(formats)
    tensors = {}
    for name, entry in entries.items():
        size = _bytes(path, entry, formats.get(entry.type))
        tensor = GgufTensor(path, name, entry.shape, entry.type, base + entry.offset, size, cursor.data, readable)
        _check_place(path, tensor, entry, len(cursor.data) - base, alignment)
        tensors[name] = tensor
    _check_overlap(path, list(tensors.values()))
    return tensors
