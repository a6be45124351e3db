"""Where the weights of linear layers are: in the mapped file, or arranged for the kernels of this CPU."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.formats import FormatInfo
from strata_runtime.memory import Arena, release
from strata_runtime.native import Layout, NativeModule, Pool

_PIECE_BYTES = 16 << 20  # of a file, in memory at a time beside what is made of it


@dataclass(frozen=True, slots=True)
class Place:
    """A matrix as kernels read it: its layout is None where the rows are as they are stored."""

    address: int
    bytes: int
    layout: Layout | None
    owner: object


class Placer(Protocol):
    """Gives matrices their place."""

    def place(self, matrix: Stored) -> Place:
        """Return where kernels find a matrix."""
        ...


class InFile:
    """Leaves everything where it is."""

    def place(self, matrix: Stored) -> Place:
        """Return the matrix's own place."""
        return Place(matrix.address, len(matrix.data), None, matrix.data)


class Layouts:
    """The compute layouts of a pool's kernels: of each format, or None where they read blocks as they are stored."""

    def __init__(self, native: NativeModule, pool: Pool, most: float) -> None:
        """`most`: layouts are left out that take more than this share of the stored bytes."""
        self._native, self._pool, self._most = native, pool, most
        self._known: dict[str, Layout | None] = {}

    def of(self, form: FormatInfo) -> Layout | None:
        """Return a format's layout."""
        if form.name not in self._known:
            layout = self._native.layout(self._pool, form.name)
            if layout is not None:
                stored = layout.rows * form.block_bytes
                is_larger = layout.bytes(layout.rows, form.block_elements) > self._most * stored
                layout = None if is_larger else layout
            self._known[form.name] = layout
        return self._known[form.name]

    def bytes(self, form: FormatInfo, rows: int, columns: int) -> int:
        """Return the memory that `Arranger` takes for a matrix: 0 where it leaves it in the file."""
        layout = self.of(form)
        return 0 if layout is None else Arena.room(layout.bytes(rows, columns))


class Arranger:
    """Brings matrices into compute layouts, and gives back the memory of the mapped file.

    What has none of `layouts` stays where it is.
    """

    def __init__(self, native: NativeModule, pool: Pool, layouts: Layouts, size: int) -> None:
        """`size`: the sum of `layouts.bytes` of all matrices to come. Raises `MemoryError`."""
        self._native, self._pool, self._layouts = native, pool, layouts
        self._arena = Arena(size)

    @property
    def bytes(self) -> int:
        """Memory that arranged matrices take so far."""
        return self._arena.used

    def place(self, matrix: Stored) -> Place:
        """Return where a matrix is after it was arranged."""
        rows, columns = matrix.shape
        layout = self._layouts.of(matrix.form)
        if layout is None:
            return InFile().place(matrix)
        size = layout.bytes(rows, columns)
        address = to = self._arena.take(size)
        for piece in _pieces(matrix, layout):
            self._native.arrange(self._pool, layout, piece.shape[0], columns, piece.address, to)
            release(piece.data)
            to += layout.bytes(piece.shape[0], columns)
        return Place(address, size, layout, self._arena)


def _pieces(matrix: Stored, layout: Layout) -> Iterator[Stored]:
    rows = matrix.shape[0]
    groups = max(1, _PIECE_BYTES // max(1, len(matrix.data) // rows * layout.rows))
    for first in range(0, rows, groups * layout.rows):
        yield matrix.rows(first, min(rows, first + groups * layout.rows))
