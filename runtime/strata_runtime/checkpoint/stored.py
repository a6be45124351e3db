"""Tensors as a checkpoint stores them, whatever kind of file it is."""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from strata_runtime.errors import UserError
from strata_runtime.formats import Bytes, Floats, FormatInfo

NAMED_AT_MOST = 5


def some(names: Iterable[str]) -> str:
    """Name the first few of `names` and count the rest."""
    listed = list(names)
    rest = len(listed) - NAMED_AT_MOST
    return ", ".join(listed[:NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """A tensor [..., rows, columns] in blocks of `form`, mapped: `data` is uint8 [bytes]. `where`: for messages."""

    where: str
    form: FormatInfo
    shape: tuple[int, ...]
    data: Bytes

    @property
    def address(self) -> int:
        """Where `data` lies in memory, for as long as it is kept."""
        return int(self.data.ctypes.data)

    @property
    def count(self) -> int:
        """Numbers in it."""
        return math.prod(self.shape)

    def part(self, index: int) -> Stored:
        """Item `index` of the first dimension, uncopied."""
        size = len(self.data) // self.shape[0]
        return Stored(self.where, self.form, self.shape[1:], self.data[index * size : (index + 1) * size])

    def rows(self, first: int, stop: int) -> Stored:
        """Rows `first` up to and without `stop` of a matrix, uncopied."""
        size = len(self.data) // self.shape[0]
        return Stored(self.where, self.form, (stop - first, *self.shape[1:]), self.data[first * size : stop * size])

    def floats(self) -> Floats:
        """Decode all of it."""
        return self.form.decode(self.data).reshape(self.shape)


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """One tensor of a file, whose table of tensors was checked. `form` is None for a type that cannot be read."""

    path: Path
    type: str
    shape: tuple[int, ...]
    form: FormatInfo | None
    data: memoryview


@dataclass(frozen=True, slots=True)
class Tensors:
    """All tensors of a checkpoint by name.

    `where`: its folder or its one file. `readable`: the types that can be read. `bytes`: size of all its files.
    """

    where: str
    found: Mapping[str, Found]
    readable: tuple[str, ...]
    bytes: int

    def maps(self) -> tuple[mmap.mmap, ...]:
        """The files as they are mapped."""
        found = {id(one.data.obj): one.data.obj for one in self.found.values()}
        return tuple(mapped for mapped in found.values() if isinstance(mapped, mmap.mmap))

    def place(self, name: str) -> str:
        """Say where a tensor is."""
        return f"{self.found[name].path}: tensor '{name}'"

    def stored(self, name: str) -> Stored:
        """One tensor. Raises `UserError` when it is of a type that cannot be read."""
        found, where = self.found[name], self.place(name)
        if found.form is None:
            raise UserError(
                f"{where}: is stored as {found.type}, which cannot be read; "
                f"what can be: {', '.join(self.readable) or 'nothing'}"
            )
        return Stored(where, found.form, found.shape, np.frombuffer(found.data, np.uint8))
