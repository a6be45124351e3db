"""Typed protocol of the device kernels between the products of a layer, on raw addresses as in `native`."""

from __future__ import annotations

from typing import Literal, Protocol

HeadShape = tuple[int, int, int]
"""Query heads, heads of keys and values (as many queries share each), elements of a head."""

HeadRules = tuple[int, int, float, float, int]
"""Weights of the queries' and the keys' norm [elements] (0: no norms) and its epsilon; what queries are multiplied by;
how many leading elements of a head are rotated."""

CacheType = Literal["f32", "f16", "bf16"]
"""What keys and values are stored as."""

DeviceCache = tuple[int, CacheType, int]
"""Keys and values of a layer, [2, kv_heads, capacity, elements], aligned to 16 bytes; their type and capacity."""


class LayerKernels(Protocol):
    """Kernels between the products of a layer.

    A quantised result (`q`; 0: none) is of rows whose columns are whole blocks of 32: int8 [rows, columns], then the
    float32 scale of every block, then that times the sum of its integers, float32; aligned to 16 bytes, columns * 40 /
    32 bytes a row. `stream` is as in `DeviceKernels`.
    """

    def rms_norm(self, rows: int, columns: int, x: int, weight: int, eps: float, out: int, q: int, stream: int) -> None:
        """out[rows, columns] = x / sqrt(mean(x^2) + eps) * weight[columns], by rows; `out` may be `x`."""
        ...

    def silu_multiply(self, rows: int, columns: int, gate: int, up: int, out: int, q: int, stream: int) -> None:
        """out[rows, columns] = silu(gate) * up; `out` may be one of them."""
        ...

    def add(self, count: int, x: int, out: int, stream: int) -> None:
        """out[count] += x."""
        ...

    def argmax(self, rows: int, columns: int, x: int, out: int, stream: int) -> None:
        """out[rows] (int32): where each row of x [rows, columns] is largest; ties to the first, a NaN is lowest."""
        ...

    def embed(self, format: str, columns: int, table: int, ids: int, tokens: int, out: int, stream: int) -> None:
        """out[tokens, columns]: rows of a stored table by ids (int32 [tokens]); zeros for an id below 0."""
        ...

    def combine(
        self, tokens: int, top_k: int, hidden: int, rows: int, weights: int, residual: int, stream: int
    ) -> None:
        """residual[t] += sum over k ascending of weights[t, k] * rows[t * top_k + k], where the weight is not 0."""
        ...

    def prepare_heads(
        self,
        shape: HeadShape,
        rules: HeadRules,
        cache: DeviceCache,
        tokens: int,
        position: int,
        angles: int,
        queries: int,
        keys: int,
        values: int,
        stream: int,
    ) -> None:
        """Norm, scale and rotate queries [tokens, heads, elements] in place; add keys and values to the cache.

        position: address of an int32, how many positions are filled. keys, values: [tokens, kv_heads, elements]; keys
        are normed and rotated too. angles: cosines and sines [capacity, 2, rotated / 2] of every position. Any number
        of tokens; those that the cache has no room for are left out.
        """
        ...

    def attend(
        self,
        shape: HeadShape,
        cache: DeviceCache,
        tokens: int,
        position: int,
        queries: int,
        out: int,
        out_q: int,
        workspace: int,
        stream: int,
    ) -> None:
        """out[tokens, heads, elements]: what prepared queries find; token i looks at the positions up to its own.

        That is `position` (address of an int32) plus i; the keys and values of all tokens are in the cache. Bits of a
        token depend on no other token. workspace: as many bytes as `attend_workspace` says.
        """
        ...

    def attend_workspace(self, shape: HeadShape, tokens: int, capacity: int) -> int:
        """Bytes that `attend` needs of scratch memory."""
        ...
