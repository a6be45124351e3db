"""The metadata of a GGUF file: keys with typed values. Arrays stay in the file until they are asked for."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.gguf.cursor import NAME_AT_MOST, Cursor
from strata_runtime.gguf.types import ARRAY, BOOL, SCALARS, TEXT, value_type

KEYS_AT_MOST = 1 << 16
DEPTH_AT_MOST = 4  # arrays in arrays
TEXT_AT_MOST = 1 << 26  # bytes of one text: whole tokenizers are kept in them
LISTED_AT_MOST = 1 << 16
"""Items of an array that are taken one by one, as objects that are larger than what the file spends on them."""
_ARRAY_HEAD_BYTES = 12
_ARRAY_COST = 64  # the time that one takes, in texts that are stepped over
_KEY_BYTES = 13  # the least: length, name of one byte, type


@dataclass(frozen=True, slots=True, eq=False)
class Array:
    """An array as it lies in the file: `count` items of `type` (`u8` to `f64`, `bool`, `text` or `array`)."""

    where: str
    type: str
    count: int
    raw: memoryview

    def __len__(self) -> int:
        return self.count

    def numbers(self) -> NDArray[Any]:
        """Return the numbers, [count], uncopied and read-only. Raises `UserError` when they are something else."""
        dtypes = dict(SCALARS.values())
        if self.type not in dtypes:
            raise UserError(f"{self.where} must be an array of numbers, but is one of {self.type}")
        return np.frombuffer(self.raw, dtypes[self.type])

    def texts(self) -> list[str]:
        """Read the texts. Raises `UserError` when they are something else, or not UTF-8."""
        if self.type != "text":
            raise UserError(f"{self.where} must be an array of texts, but is one of {self.type}")
        data, position, texts = bytes(self.raw), 0, []
        length = struct.Struct("<Q").unpack_from
        try:
            # Every length was followed when the array was stepped over.
            for _ in range(self.count):
                start = position + 8
                position = start + length(data, position)[0]
                texts.append(data[start:position].decode())
        except UnicodeDecodeError as problem:
            raise UserError(f"{self.where}: item {len(texts)} is not UTF-8 text (byte {problem.start})") from None
        return texts

    def values(self) -> list[Value]:
        """Read the items, whatever they are. Raises `UserError` for more than `LISTED_AT_MOST`."""
        if self.count > LISTED_AT_MOST:
            raise UserError(f"{self.where} has {self.count} items, more than {LISTED_AT_MOST}")
        if self.type == "text":
            return list(self.texts())
        if self.type == "bool":
            return [bool(item) for item in self.raw]
        if self.type == "array":
            cursor = Cursor(Path(self.where), self.raw)
            return [_array(cursor, f"{self.where}: item {index}", 0) for index in range(self.count)]
        return list(self.numbers().tolist())


Value = int | float | bool | str | Array


class Metadata(Mapping[str, Value]):
    """Values by key.

    The typed getters return None for a key that is not there, and raise `UserError` for values of another type.
    """

    def __init__(self, path: Path, values: Mapping[str, Value]) -> None:
        self.path = path
        self._values = values

    def __getitem__(self, key: str) -> Value:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def wrong(self, key: str, expected: str) -> UserError:
        """Make the error for a value that is not what it must be."""
        value = self[key]
        found = f"an array of {value.type}" if isinstance(value, Array) else shown(value)
        return UserError(f"{self.path}: '{key}' must be {expected}, found {found}")

    def text(self, key: str) -> str | None:
        """Return a text."""
        value = self.get(key)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(key, "text")

    def whole(self, key: str) -> int | None:
        """Return a whole number, of whatever width and sign the file stores it in."""
        value = self.get(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool)):
            return value
        raise self.wrong(key, "a whole number")

    def flag(self, key: str) -> bool | None:
        """Return true or false."""
        value = self.get(key)
        if value is None or isinstance(value, bool):
            return value
        raise self.wrong(key, "true or false")

    def array(self, key: str) -> Array | None:
        """Return an array of any type."""
        value = self.get(key)
        if value is None or isinstance(value, Array):
            return value
        raise self.wrong(key, "an array")


def shown(value: float | str) -> str:
    """Show a value shortly."""
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _number(cursor: Cursor, dtype: str, what: str) -> float:
    size = int(dtype[-1])
    number: float = np.frombuffer(cursor.take(size, what), dtype)[0].item()
    return number


def _array(cursor: Cursor, where: str, depth: int) -> Array:
    what = where.removeprefix(f"{cursor.path}: ")
    kind, count = cursor.u32(what), cursor.u64(what)
    name, start = value_type(kind, where), cursor.position
    if kind == TEXT:
        cursor.skip_texts(count, what)
    elif kind == ARRAY:
        if depth == DEPTH_AT_MOST:
            raise UserError(f"{where}: arrays are nested more than {DEPTH_AT_MOST} deep")
        cursor.expect(count, _ARRAY_HEAD_BYTES, what)
        cursor.walk(count * _ARRAY_COST, what)
        for _ in range(count):
            _array(cursor, where, depth + 1)
    else:
        size = 1 if kind == BOOL else int(SCALARS[kind][1][-1])
        cursor.expect(count, size, what)
        cursor.take(count * size, what)
    raw = cursor.data[start : cursor.position]
    if kind == BOOL and np.frombuffer(raw, np.uint8).max(initial=0) > 1:
        raise UserError(f"{where}: an item is neither true nor false: the file is damaged")
    return Array(where, name, count, raw)


def _value(cursor: Cursor, key: str) -> Value:
    what = f"'{key}'"
    where = f"{cursor.path}: {what}"
    kind = cursor.u32(what)
    value_type(kind, where)
    if kind == TEXT:
        return cursor.text(what, TEXT_AT_MOST)
    if kind == ARRAY:
        return _array(cursor, where, 0)
    if kind == BOOL:
        byte = cursor.take(1, what)[0]
        if byte > 1:
            raise UserError(f"{where} is neither true nor false but {byte}: the file is damaged")
        return bool(byte)
    return _number(cursor, SCALARS[kind][1], what)


def read_metadata(cursor: Cursor, count: int) -> Metadata:
    """Read `count` keys and their values from the cursor's position. Raises `UserError`."""
    cursor.expect(count, _KEY_BYTES, "the metadata")
    if count > KEYS_AT_MOST:
        raise UserError(f"{cursor.path}: the metadata has {count} keys, more than {KEYS_AT_MOST}")
    values: dict[str, Value] = {}
    for index in range(count):
        key = cursor.text(f"the name of metadata key {index}", NAME_AT_MOST)
        if not key or not key.isprintable():
            raise UserError(f"{cursor.path}: the name of metadata key {index} is {shown(key)}: the file is damaged")
        if key in values:
            raise UserError(f"{cursor.path}: the key '{key}' is given twice")
        values[key] = _value(cursor, key)
    return Metadata(cursor.path, values)
