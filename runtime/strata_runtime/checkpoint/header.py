"""The header of a safetensors file: 8 bytes of length, JSON, then the tensors' bytes without gaps."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.strict_json import BYTES_AT_MOST, json_type, parse_object

LENGTH_BYTES = 8
DIMENSIONS_AT_MOST = 8
ITEM_BYTES = {
    "BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "I16": 2, "U16": 2, "F16": 2, "BF16": 2,
    "I32": 4, "U32": 4, "F32": 4, "I64": 8, "U64": 8, "F64": 8,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """One tensor of a file: `start` and `stop` are offsets in bytes from the file's begin."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int


def _is_size(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _sizes(value: object, what: str, least: int, most: int) -> tuple[int, ...]:
    if not isinstance(value, list) or not least <= len(value) <= most or not all(map(_is_size, value)):
        count = f"{least}" if least == most else f"at most {most}"
        raise UserError(f"{what} must be {count} whole numbers from 0 to 2^63 - 1, found {json_type(value)}")
    return tuple(value)


def _entry(path: Path, name: str, raw: object, base: int, data_bytes: int) -> Entry:
    where = f"{path}: tensor '{name}'"
    if not isinstance(raw, dict):
        raise UserError(f"{where}: expected an object, found {json_type(raw)}")
    if set(raw) != {"dtype", "shape", "data_offsets"}:
        raise UserError(f"{where}: expected dtype, shape and data_offsets, found {', '.join(sorted(raw)) or 'nothing'}")
    dtype = raw["dtype"]
    if not isinstance(dtype, str) or dtype not in ITEM_BYTES:
        raise UserError(f"{where}: unknown dtype {json_type(dtype)}")
    shape = _sizes(raw["shape"], f"{where}: shape", 0, DIMENSIONS_AT_MOST)
    begin, end = _sizes(raw["data_offsets"], f"{where}: data_offsets", 2, 2)
    if not begin <= end <= data_bytes:
        raise UserError(
            f"{where}: its bytes are {begin} to {end}, but the file holds {data_bytes} bytes of tensors: "
            "the file is truncated or damaged, fetch it again"
        )
    expected = math.prod(shape) * ITEM_BYTES[dtype]
    if end - begin != expected:
        raise UserError(f"{where}: {dtype} {list(shape)} takes {expected} bytes, but its offsets span {end - begin}")
    return Entry(name, dtype, shape, base + begin, base + end)


def _check_coverage(path: Path, entries: list[Entry], base: int, file_bytes: int) -> None:
    position, previous = base, ""
    for entry in sorted(entries, key=lambda entry: (entry.start, entry.stop)):
        if entry.start < position:
            raise UserError(f"{path}: the bytes of tensors '{previous}' and '{entry.name}' overlap")
        if entry.start > position:
            raise UserError(f"{path}: {entry.start - position} bytes before tensor '{entry.name}' belong to no tensor")
        position, previous = entry.stop, entry.name
    if position != file_bytes:
        raise UserError(f"{path}: {file_bytes - position} bytes after the last tensor belong to no tensor")


def parse_header(path: Path, data: memoryview) -> dict[str, Entry]:
    """Parse and check the header of the file whose whole content is `data`. Raises `UserError`.

    After this, every entry lies inside the file, has as many bytes as its shape needs, and overlaps no other.
    """
    size = len(data)
    if size < LENGTH_BYTES:
        raise UserError(f"{path}: {size} bytes are too few for a safetensors file: fetch it again")
    length = int.from_bytes(data[:LENGTH_BYTES], "little")
    base = LENGTH_BYTES + length
    if length > BYTES_AT_MOST or base > size:
        raise UserError(
            f"{path}: the header claims {length} bytes, but the file has {size}: "
            "it is truncated or no safetensors file, fetch it again"
        )
    raw = parse_object(bytes(data[LENGTH_BYTES:base]), f"{path}: header")
    metadata = raw.pop("__metadata__", {})
    if not isinstance(metadata, dict):
        raise UserError(f"{path}: __metadata__ must be an object, found {json_type(metadata)}")
    entries = [_entry(path, name, value, base, size - base) for name, value in raw.items()]
    _check_coverage(path, entries, base, size)
    return {entry.name: entry for entry in entries}
