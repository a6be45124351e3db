"""The device kernels between the products of a layer among those whose calls are remembered."""

from __future__ import annotations

from typing import Any

import numpy as np

from strata_runtime.native_device import HOST_STREAM
from support import layer_reference
from support.kernels import Array, Floats, Kernels, Stored, address


class CalledLayerKernels(Kernels):
    """Kernels by their specs' names; `called` holds the names of the instances that the native module ran."""

    called: set[str]

    def _note(self, name: str) -> None:
        self.called = {*getattr(self, "called", ()), name}

    def _layer(self, name: str, method: str) -> Any:
        self._note(name)
        return getattr(self.native.device, method)

    def norm_rows(self, x: Floats, weight: Floats, eps: float) -> tuple[Floats, bytes]:
        """Rows and their quantised form."""
        out, q = np.full_like(x, np.nan), _quantised(x)
        places = (address(x), address(weight), eps, address(out), address(q))
        self._layer("norm_rows", "rms_norm")(*x.shape, *places, HOST_STREAM)
        return out, q.tobytes()

    def silu_rows(self, gate: Floats, up: Floats) -> tuple[Floats, bytes]:
        """silu(gate) * up and its quantised form."""
        out, q = np.full_like(gate, np.nan), _quantised(gate)
        places = map(address, (gate, up, out, q))
        self._layer("silu_rows", "silu_multiply")(*gate.shape, *places, HOST_STREAM)
        return out, q.tobytes()

    def add_rows(self, x: Floats, out: Floats) -> Floats:
        result = out.copy()
        self._layer("add_rows", "add")(x.size, address(x), address(result), HOST_STREAM)
        return result

    def argmax_rows(self, x: Floats) -> Array:
        out = np.full(len(x), -7, np.int32)
        self._layer("argmax_rows", "argmax")(*x.shape, address(x), address(out), HOST_STREAM)
        return out

    def embed_rows(self, table: Stored, ids: Array) -> Floats:
        """Rows [tokens, columns] of a table."""
        out = np.full((len(ids), table.columns), np.nan, np.float32)
        places = (address(table.blocks), address(ids), len(ids), address(out))
        self._layer("embed_rows", "embed")(table.format.name, table.columns, *places, HOST_STREAM)
        return out

    def append_heads(
        self,
        heads: tuple[Floats, Floats, Floats],
        norms: tuple[Floats, Floats],
        eps: float,
        scale: float,
        angles: Floats,
        cache: Array,
        start: int,
    ) -> tuple[Floats, Array]:
        """Queries, and the cache [2, kv_heads, capacity, dim] with keys and values from `start` on."""
        queries, result, position = heads[0].copy(), _aligned(cache), np.array([start], np.int32)
        shape = (queries.shape[1], cache.shape[1], cache.shape[3])
        rules = (address(norms[0]), address(norms[1]), eps, scale, 2 * angles.shape[2])
        places = map(address, (position, angles, queries, heads[1], heads[2]))
        where = (address(result), _type(cache), cache.shape[2])
        self._layer("append_heads", "prepare_heads")(shape, rules, where, len(queries), *places, HOST_STREAM)
        return queries, result

    def attend_window(self, queries: Floats, cache: Array, start: int) -> tuple[Floats, bytes]:
        """Results and their quantised form, of a cache [2, kv_heads, capacity, dim]."""
        for kernel in ("attend_window", "attend_join"):
            self._note(kernel)
        device, tokens = self.native.device, len(queries)
        shape, capacity = (queries.shape[1], cache.shape[1], cache.shape[3]), cache.shape[2]
        out, q, given = np.full_like(queries, np.nan), _quantised(queries), _aligned(cache)
        workspace = np.empty(device.attend_workspace(shape, tokens, capacity), np.uint8)
        places = map(address, (np.array([start], np.int32), queries, out, q, workspace))
        device.attend(shape, (address(given), _type(cache), capacity), tokens, *places, HOST_STREAM)
        return out, q.tobytes()


def _quantised(x: Floats) -> Array:
    """Room for the quantised form of rows."""
    return np.full(x.size // 32 * 40, 0xA5, np.uint8)


def _aligned(array: Array) -> Array:
    """Return a copy at a multiple of 16 bytes."""
    memory = np.empty(array.nbytes + 16, np.uint8)
    first = -address(memory) % 16
    result: Array = memory[first : first + array.nbytes].view(array.dtype).reshape(array.shape)
    result[:] = array
    return result


def _type(cache: Array) -> str:
    return layer_reference.CACHE_TYPES[[np.float32, np.float16, np.uint16].index(cache.dtype.type)]
