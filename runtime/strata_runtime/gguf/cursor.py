"""A position in the bytes of a file that never leaves them."""

from __future__ import annotations

import struct
from itertools import repeat
from pathlib import Path

from strata_runtime.errors import UserError

NAME_AT_MOST = 65535  # bytes of a key or a tensor's name
ITEMS_AT_MOST = 1 << 24
"""Texts in arrays of one file: they are stepped over one by one, and a lie must not take minutes to find out."""

_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")


class Cursor:
    """Reads forward through `data`, the whole content of the file at `path`."""

    __slots__ = ("_items", "data", "path", "position")

    def __init__(self, path: Path, data: memoryview) -> None:
        self.path = path
        self.data = data
        self.position = 0
        self._items = ITEMS_AT_MOST

    def _truncated(self, what: str) -> UserError:
        return UserError(
            f"{self.path}: the file ends within {what}: it has {len(self.data)} bytes and is truncated or damaged, "
            "fetch it again"
        )

    @property
    def left(self) -> int:
        """Bytes behind the position."""
        return len(self.data) - self.position

    def take(self, count: int, what: str) -> memoryview:
        """Step over `count` bytes and return them, uncopied."""
        if count > self.left:
            raise self._truncated(what)
        start = self.position
        self.position += count
        return self.data[start : self.position]

    def u32(self, what: str) -> int:
        """Read 4 bytes."""
        return int(_U32.unpack(self.take(4, what))[0])

    def u64(self, what: str) -> int:
        """Read 8 bytes."""
        return int(_U64.unpack(self.take(8, what))[0])

    def text(self, what: str, at_most: int | None = None) -> str:
        """Read a length and UTF-8 text of `at_most` bytes."""
        length = self.u64(what)
        if at_most is not None and length > at_most:
            raise UserError(f"{self.path}: {what} is {length} bytes long, more than {at_most}: the file is damaged")
        raw = self.take(length, what)
        try:
            return str(raw, "utf-8")
        except UnicodeDecodeError as problem:
            raise UserError(f"{self.path}: {what} is not UTF-8 text (byte {problem.start})") from None

    def expect(self, count: int, item_bytes: int, what: str) -> None:
        """Check that `count` items of at least `item_bytes` each can follow, before anything is made for them."""
        if count > self.left // item_bytes:
            raise UserError(
                f"{self.path}: {what} claims {count} items, but only {self.left} bytes follow: "
                "the file is truncated or damaged, fetch it again"
            )

    def walk(self, count: int, what: str) -> None:
        """Count items that have to be stepped over one by one."""
        self._items -= count
        if self._items < 0:
            raise UserError(f"{self.path}: {what} has too many items: a file may have {ITEMS_AT_MOST} in all")

    def skip_texts(self, count: int, what: str) -> None:
        """Step over `count` texts without looking at them."""
        self.expect(count, 8, what)
        self.walk(count, what)
        length, data, position = _U64.unpack_from, self.data, self.position
        try:
            for _ in repeat(None, count):
                position += 8 + length(data, position)[0]
        except (struct.error, OverflowError):
            raise self._truncated(what) from None
        if position > len(data):
            raise self._truncated(what)
        self.position = position
