"""Operations of a kernels package on numpy arrays, and their references in float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from strata_runtime.formats import FormatInfo
from strata_runtime.provider import Provider
from support.random_blocks import random_blocks

Array = NDArray[Any]
Floats = NDArray[np.float32]


def address(array: Array) -> int:
    assert array.flags.c_contiguous
    return int(array.ctypes.data)


def bits(array: Floats) -> NDArray[np.uint32]:
    """The bits of floats: equal for equal bits only, NaN included."""
    return np.ascontiguousarray(array).view(np.uint32)


@dataclass(frozen=True)
class Stored:
    """Encoded weights [rows, columns] and what they decode to."""

    format: FormatInfo
    blocks: Array
    decoded: Floats

    @property
    def rows(self) -> int:
        return self.decoded.shape[0]

    @property
    def columns(self) -> int:
        return self.decoded.shape[1]


@dataclass(frozen=True)
class Placed:
    """Weights in the layout that kernels are given."""

    bytes: Array
    layout: Any


class Kernels:
    """One package at one level with a pool of its own; `arranged` weights are in its compute layouts."""

    def __init__(
        self,
        provider: Provider,
        isa: str | None = None,
        knobs: Mapping[str, str] | None = None,
        arranged: bool = False,
    ) -> None:
        self.arranged = arranged
        self.native: Any = provider.native
        self.formats = {info.name: info for info in provider.formats}
        self.isa = isa or self.native.ISA
        self.pool = self.native.make_pool(list((knobs or {}).items()), isa=isa)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.pool.close()

    def encode(self, name: str, values: Floats, *, shared: bool = False) -> Array:
        """Encode rows, on the calling thread or shared by the pool."""
        rows, columns = values.shape
        blocks = np.full((rows, self.formats[name].row_bytes(columns)), 0xA5, np.uint8)
        self.native.quantize(name, rows, columns, address(values), address(blocks), self.pool if shared else None)
        return blocks

    def decode(self, name: str, blocks: Array, columns: int, *, shared: bool = False) -> Floats:
        values = np.empty((blocks.shape[0], columns), np.float32)
        pool = self.pool if shared else None
        self.native.dequantize(name, blocks.shape[0], columns, address(blocks), address(values), pool)
        return values

    def store(self, name: str, values: Floats) -> Stored:
        blocks = self.encode(name, np.ascontiguousarray(values, dtype=np.float32))
        return Stored(self.formats[name], blocks, self.formats[name].decode(blocks))

    def random(self, name: str, rows: int, columns: int, seed: int = 0, size: float = 0.01) -> Stored:
        """Weights of random bits, whose factors are near `size`."""
        info = self.formats[name]
        blocks = random_blocks(info, rows, columns, seed, size)
        return Stored(info, blocks, info.decode(blocks))

    def layout(self, name: str) -> Any:
        """The compute layout that a format's weights get, None for rows as they are stored."""
        return self.native.layout(self.pool, name) if self.arranged else None

    def arrange(self, weights: Stored) -> Array:
        """Weights in the compute layout of the pool's kernels, as bytes."""
        layout = self.native.layout(self.pool, weights.format.name)
        out = np.full(layout.bytes(weights.rows, weights.columns), 0xA5, np.uint8)
        self.native.arrange(self.pool, layout, weights.rows, weights.columns, address(weights.blocks), address(out))
        return out

    def place(self, stored: Stored) -> Placed:
        layout = self.layout(stored.format.name)
        return Placed(stored.blocks if layout is None else self.arrange(stored), layout)

    def matrix(self, stored: Stored, scale: float = 1.0) -> Any:
        placed = self.place(stored)
        return self.native.make_matrix(
            stored.format.name,
            stored.rows,
            stored.columns,
            address(placed.bytes),
            placed.bytes.nbytes,
            placed.bytes,
            scale,
            placed.layout,
        )

    def linear(self, stored: Stored, x: Floats, scale: float = 1.0) -> Floats:
        out = np.full((len(x), stored.rows), np.nan, np.float32)
        self.native.linear(self.pool, self.matrix(stored, scale), len(x), address(x), address(out))
        return out

    def experts(
        self,
        layer: Sequence[tuple[Stored, Stored, Stored]],
        x: Floats,
        ids: NDArray[np.int32],
        scales: Sequence[Sequence[float]] = ((), (), ()),
    ) -> Floats:
        """Rows [tokens * top_k, hidden] of experts given as (gate, up, down); `scales` of each part by expert."""
        (gate, _, _) = layer[0]
        tokens, top_k = ids.shape
        places = [[self.place(expert[part]) for expert in layer] for part in range(3)]
        handle = self.native.make_experts(
            gate.columns,
            gate.rows,
            *(
                (layer[0][part].format.name, [address(each.bytes) for each in placed], scales[part], placed[0].layout)
                for part, placed in enumerate(places)
            ),
            places,
        )
        assert handle.count == len(layer)
        out = np.full((tokens * top_k, gate.columns), np.nan, np.float32)
        self.native.experts(self.pool, handle, tokens, top_k, address(x), address(ids), address(out))
        return out

    def attend(self, queries: Floats, cache: Floats, start: int) -> Floats:
        """Attention of prepared queries [tokens, heads, dim] behind `start` positions of a layer's cache."""
        tokens, heads, dim = queries.shape
        out = np.full_like(queries, np.nan)
        shape, place = (heads, cache.shape[1], dim), (address(cache), cache.shape[2], start)
        self.native.attend(self.pool, shape, place, tokens, address(queries), address(out))
        return out

    def combine(self, rows: Floats, weights: Floats, out: Floats) -> Floats:
        tokens, top_k = weights.shape
        result = out.copy()
        self.native.combine(tokens, top_k, out.shape[1], address(rows), address(weights), address(result))
        return result


def error_scale(stored: Stored, x: Floats) -> NDArray[np.float64]:
    """For each (token, row): the sum over blocks of (sum of |weight|) * (largest |input|).

    Blocks are those that activations are quantised in, and 32 wide for float activations.
    """
    columns = stored.columns
    wide = 256 if stored.format.activation == "int8_256" else 32
    padded = -(-columns // wide) * wide
    weights = np.zeros((stored.rows, padded))
    inputs = np.zeros((len(x), padded))
    weights[:, :columns] = np.abs(stored.decoded)
    inputs[:, :columns] = np.abs(x)
    sums = weights.reshape(stored.rows, padded // wide, wide).sum(axis=2)
    largest = inputs.reshape(len(x), padded // wide, wide).max(axis=2)
    return np.asarray(largest @ sums.T)


def product(stored: Stored, x: Floats) -> NDArray[np.float64]:
    return np.asarray(x.astype(np.float64) @ stored.decoded.astype(np.float64).T)


def silu(x: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(x / (1.0 + np.exp(-x)))


def expert_row(expert: tuple[Stored, Stored, Stored], x: Floats) -> NDArray[np.float64]:
    """down(silu(gate(x)) * up(x)) of one input [hidden]."""
    gate, up, down = expert
    middle = silu(product(gate, x[None])) * product(up, x[None])
    return np.asarray(middle @ down.decoded.astype(np.float64).T)[0]
