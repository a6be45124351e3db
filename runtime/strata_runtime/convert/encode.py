"""The blocks of a converted file, made piece by piece on several threads and handed out in order."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.convert.targets import Target
from strata_runtime.errors import UserError
from strata_runtime.formats import Bytes
from strata_runtime.native import NativeModule

_PIECE = 1 << 18
"""Values of one piece: memory is a few pieces for each thread, whatever the size of the model."""


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """Some rows of one part of `target`."""

    target: Target
    rows: Stored


def _pieces(targets: Iterable[Target]) -> Iterator[Piece]:
    for target in targets:
        for part in target.parts:
            rows, columns = math.prod(part.shape[:-1]), part.shape[-1]
            matrix = Stored(part.where, part.form, (rows, columns), part.data)
            step = max(1, _PIECE // columns)
            for first in range(0, rows, step):
                yield Piece(target, matrix.rows(first, min(first + step, rows)))


def _encode(native: NativeModule, piece: Piece) -> Bytes:
    """Return one piece's blocks. Raises `UserError` for values that are not finite, or not in the new format."""
    stored, form = piece.rows, piece.target.form
    rows, columns = stored.shape
    values = np.empty((rows, columns), np.float32)
    native.dequantize(stored.form.name, rows, columns, stored.address, values.ctypes.data)
    if not np.isfinite(values).all():
        raise UserError(f"{stored.where}: holds values that are not finite: the file is damaged, fetch it again")
    if stored.form.name == form.name:
        return stored.data
    blocks = np.empty(rows * form.row_bytes(columns), np.uint8)
    try:
        native.quantize(form.name, rows, columns, values.ctypes.data, blocks.ctypes.data)
    except ValueError:  # it names a row of the piece
        largest = float(np.abs(values).max())
        problem = f"values up to {largest:.3g} are too large for {form.name}: choose another"
        raise UserError(f"{stored.where}: {problem}") from None
    return blocks


def _in_order(work: Callable[[Piece], Bytes], pieces: Iterable[Piece], threads: int) -> Iterator[tuple[Piece, Bytes]]:
    """Work on some pieces ahead of the one that is handed out, and never on more."""
    pending = deque[tuple[Piece, Future[Bytes]]]()
    with ThreadPoolExecutor(threads) as executor:
        for piece in pieces:
            pending.append((piece, executor.submit(work, piece)))
            if len(pending) > 2 * threads:
                first, future = pending.popleft()
                yield first, future.result()
        for first, future in pending:
            yield first, future.result()


def encoded(native: NativeModule, targets: Iterable[Target], threads: int) -> Iterator[tuple[Target, Bytes]]:
    """Yield the blocks of all targets in their order, as (target, some of its bytes). Raises `UserError`."""
    for piece, blocks in _in_order(lambda piece: _encode(native, piece), _pieces(targets), threads):
        yield piece.target, blocks
