"""Kernels whose calls are remembered by canonical name, so that a test can show which instances it ran."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from strata_gen.model.kernel_name import KernelName
from support.called_device import CalledDeviceKernels
from support.kernels import Array, Floats, Stored, address


class CalledKernels(CalledDeviceKernels):
    """Every operation by name."""

    def _pool_kernel(self, kernel: str, weights: Stored) -> str:
        return f"{kernel}.{weights.format.name}.{weights.format.activation}.{self.pool.isa}"

    def linear(self, stored: Stored, x: Floats, scale: float = 1.0) -> Floats:
        self._note(self._pool_kernel("linear", stored))
        return super().linear(stored, x, scale)

    def experts(
        self,
        layer: Sequence[tuple[Stored, Stored, Stored]],
        x: Floats,
        ids: NDArray[np.int32],
        scales: Sequence[Sequence[float]] = ((), (), ()),
    ) -> Floats:
        self._note(self._pool_kernel("moe_experts", layer[0][0]))
        return super().experts(layer, x, ids, scales)

    def combine(self, rows: Floats, weights: Floats, out: Floats) -> Floats:
        self._note("combine")
        return super().combine(rows, weights, out)

    def xor_words(self, name: str, data: Array) -> int:
        self._note(name)
        return int(self.native.xor_words(name, address(data), data.nbytes // 8))

    def interleave(self, name: str, weights: Stored) -> Array:
        """One group of rows as bytes."""
        self._note(name)
        layout = self.native.layout(self.pool, weights.format.name)
        out = np.full(layout.bytes(weights.rows, weights.columns), 0xA5, np.uint8)
        self.native.interleave(name, weights.columns, address(weights.blocks), address(out))
        return out

    def arrange(self, weights: Stored) -> Array:
        self._note(self._pool_kernel("arrange", weights))
        return super().arrange(weights)

    def checksum(self, data: Array) -> int:
        self._note("checksum")
        return int(self.native.checksum(self.pool, address(data), data.nbytes))

    def quantize_input(self, name: str, x: Floats) -> Array:
        """One vector [columns] as the bytes of a prepared input."""
        self._note(name)
        prepared = np.full(self.native.quantize_input(name, len(x), address(x), 0), 0xA5, np.uint8)
        self.native.quantize_input(name, len(x), address(x), address(prepared))
        return prepared

    def silu_multiply(self, name: str, gate: Floats, up: Floats) -> Floats:
        self._note(name)
        out = gate.copy()
        self.native.silu_multiply(name, len(out), address(out), address(up))
        return out

    def attend_span(self, name: str, queries: Floats, keys: Floats, values: Floats) -> tuple[Floats, Floats, Floats]:
        """Maxima and sums [group], and weighted values [group, dim], of queries over a span of positions."""
        self._note(name)
        maxima, sums = np.full((2, len(queries)), np.nan, np.float32)
        out = np.full_like(queries, np.nan)
        where = (address(each) for each in (queries, keys, values, maxima, sums, out))
        self.native.attend_span(name, *queries.shape, len(keys), *where)
        return maxima, sums, out

    def attend(self, queries: Floats, cache: Floats, start: int) -> Floats:
        self._note(f"attend.{self.pool.isa}")
        return super().attend(queries, cache, start)

    def rms_norm(self, x: Floats, weight: Floats, eps: float) -> Floats:
        """Norms of the rows of `x` [rows, columns]."""
        self._note("rms_norm")
        out = np.full_like(x, np.nan)
        self.native.rms_norm(self.pool, *x.shape, address(x), address(weight), eps, address(out))
        return out

    def prepare_heads(
        self,
        heads: tuple[Floats, Floats, Floats],
        cache: Floats,
        start: int,
        norms: tuple[Floats, Floats] | None,
        eps: float,
        scale: float,
        angles: Floats,
    ) -> Floats:
        """Write keys and values of (queries, keys, values) [tokens, heads, dim] to `cache`; return the queries."""
        self._note("prepare_heads")
        queries = heads[0].copy()
        tokens, count, dim = queries.shape
        weights = (0, 0) if norms is None else tuple(map(address, norms))
        self.native.prepare_heads(
            self.pool,
            (count, cache.shape[1], dim),
            (*weights, eps, scale, 2 * angles.shape[-1]),
            (address(cache), cache.shape[2], start),
            tokens,
            *map(address, (angles, queries, *heads[1:])),
        )
        return queries

    def rows_dot(self, name: KernelName, weights: Stored, x: Floats) -> Floats:
        """Products [tokens, rows] of rows as they are stored."""
        return self._dot(name, weights, weights.blocks, x)

    def interleaved_dot(self, name: KernelName, weights: Stored, x: Floats) -> Floats:
        """Products [tokens, rows] of whole groups of rows, arranged for it."""
        return self._dot(name, weights, self.arrange(weights), x)

    def interleaved_dot_ahead(self, name: KernelName, weights: Stored, x: Floats) -> Floats:
        """The same with memory fetched ahead by hand."""
        return self._dot(name, weights, self.arrange(weights), x)

    def _dot(self, name: KernelName, weights: Stored, memory: Array, x: Floats) -> Floats:
        """Call a dot kernel; the inputs are prepared by the kernel of the same instruction set."""
        self._note(str(name))
        prepared = x.view(np.uint8)
        if name.activation != "float":
            quantize = f"quantize_input.{name.activation}.{name.isa}"
            prepared = np.stack([self.quantize_input(quantize, np.ascontiguousarray(row)) for row in x])
        out = np.full((len(x), weights.rows), np.nan, np.float32)
        dot = getattr(self.native, name.kernel)
        dot(str(name), weights.rows, weights.columns, address(memory), address(prepared), address(out))
        return out
