"""The native module's protocol in plain numpy: slow, double precision inside, and independent of the generated code."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from strata_runtime.native import ABI_VERSION, ExpertPart, LayerCache, Layout
from strata_runtime.native_layers import HeadRules, HeadShape

F64 = NDArray[np.float64]
Q8_BLOCK = np.dtype([("scale", "<f2"), ("values", "i1", (32,))])


def memory(address: int, dtype: np.dtype | type, *shape: int) -> np.ndarray:
    """A writable array over memory that somebody else owns."""
    count = int(np.prod(shape))
    if count == 0:
        return np.zeros(shape, dtype)
    raw = (ctypes.c_uint8 * (count * np.dtype(dtype).itemsize)).from_address(address)
    return np.frombuffer(raw, dtype=dtype).reshape(shape)


def row_bytes(format: str, columns: int) -> int:
    if format == "q8_0":
        if columns % 32:
            raise ValueError(f"q8_0: {columns} columns are no multiple of 32")
        return columns // 32 * Q8_BLOCK.itemsize
    return columns * {"f32": 4, "bf16": 2}[format]


def decode(format: str, rows: int, columns: int, address: int) -> F64:
    """Stored blocks as float64 [rows, columns]."""
    if format == "q8_0":
        blocks = memory(address, Q8_BLOCK, rows, columns // 32)
        values = blocks["values"].astype(np.float64) * blocks["scale"].astype(np.float64)[..., None]
        return values.reshape(rows, columns)
    if format == "bf16":
        bits = memory(address, np.uint16, rows, columns).astype(np.uint32) << 16
        return bits.view(np.float32).astype(np.float64)
    return memory(address, np.float32, rows, columns).astype(np.float64)


def encode(format: str, values: NDArray[np.float32]) -> bytes:
    """Float32 [rows, columns] in blocks: nearest value, ties to even for bf16 and away from zero for q8_0."""
    if format == "q8_0":
        groups = values.reshape(values.shape[0], -1, 32)
        scale = np.abs(groups).max(-1) / np.float32(127)
        inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
        scaled = groups * inverse[..., None]
        blocks = np.zeros(groups.shape[:2], Q8_BLOCK)
        blocks["scale"] = scale.astype(np.float16)
        blocks["values"] = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled).astype(np.int8)
        return blocks.tobytes()
    if format == "bf16":
        bits = values.view(np.uint32)
        return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()
    return values.astype(np.float32).tobytes()


@dataclass
class ReferencePool:
    threads: int = 1
    closed: bool = False

    def close(self) -> None:
        self.closed = True


@dataclass(frozen=True)
class ReferenceMatrix:
    rows: int
    columns: int
    weight: F64
    owner: object


@dataclass(frozen=True)
class ReferenceExperts:
    gate: list[F64]
    up: list[F64]
    down: list[F64]
    owner: object

    @property
    def count(self) -> int:
        return len(self.gate)


class ReferenceDevice:
    """The device kernel that layers call."""

    def router_topk(
        self,
        tokens: int,
        experts: int,
        top_k: int,
        logits: int,
        bias: int,
        sigmoid: bool,
        normalised: bool,
        scale: float,
        ids: int,
        weights: int,
        stream: int,
    ) -> None:
        largest = float(np.finfo(np.float32).max)
        given = memory(logits, np.float32, tokens, experts).astype(np.float64)
        given = np.clip(np.nan_to_num(given, nan=-largest), -largest, largest)
        with np.errstate(over="ignore"):
            scores = 1 / (1 + np.exp(-given)) if sigmoid else np.exp(given - given.max(-1, keepdims=True, initial=0))
        if not sigmoid:
            scores /= scores.sum(-1, keepdims=True)
        ranked = scores + memory(bias, np.float32, experts) if bias else scores
        chosen = np.argsort(-ranked, axis=-1, kind="stable")[:, :top_k]
        picked = np.take_along_axis(scores, chosen, -1)
        if normalised:
            picked /= picked.sum(-1, keepdims=True) + 1e-20
        memory(ids, np.int32, tokens, top_k)[...] = chosen
        memory(weights, np.float32, tokens, top_k)[...] = picked * scale


@dataclass
class ReferenceNative:
    """Implements `strata_runtime.native.NativeModule`; counts its calls."""

    ABI_VERSION: int = ABI_VERSION
    ISA: str = "reference"
    calls: dict[str, int] = field(default_factory=dict)
    device: ReferenceDevice = field(default_factory=ReferenceDevice)

    def _count(self, name: str) -> None:
        self.calls[name] = self.calls.get(name, 0) + 1

    def make_pool(self, knobs: Sequence[tuple[str, str]]) -> ReferencePool:
        return ReferencePool()

    def layout(self, pool: ReferencePool, format: str) -> Layout | None:
        return None

    def arrange(self, pool: ReferencePool, layout: Layout, rows: int, columns: int, blocks: int, out: int) -> None:
        raise AssertionError("there are no layouts")

    def make_matrix(
        self,
        format: str,
        rows: int,
        columns: int,
        address: int,
        bytes: int,
        owner: object,
        scale: float = 1.0,
        layout: Layout | None = None,
    ) -> ReferenceMatrix:
        if bytes != rows * row_bytes(format, columns):
            raise ValueError(f"{bytes} bytes are not {rows} rows of {row_bytes(format, columns)}")
        return ReferenceMatrix(rows, columns, scale * decode(format, rows, columns, address), owner)

    def make_experts(
        self, hidden: int, width: int, gate: ExpertPart, up: ExpertPart, down: ExpertPart, owner: object
    ) -> ReferenceExperts:
        if not len(gate[1]) == len(up[1]) == len(down[1]):
            raise ValueError("as many gate, up and down matrices are needed")

        def part(given: ExpertPart, rows: int, columns: int) -> list[F64]:
            format, addresses, scales, _ = given
            return [
                scale * decode(format, rows, columns, address)
                for address, scale in zip(addresses, scales or [1.0] * len(addresses), strict=True)
            ]

        return ReferenceExperts(part(gate, width, hidden), part(up, width, hidden), part(down, hidden, width), owner)

    def linear(self, pool: ReferencePool, matrix: ReferenceMatrix, tokens: int, x: int, out: int) -> None:
        self._count("linear")
        given = memory(x, np.float32, tokens, matrix.columns).astype(np.float64)
        memory(out, np.float32, tokens, matrix.rows)[...] = given @ matrix.weight.T

    def experts(
        self, pool: ReferencePool, layer: ReferenceExperts, tokens: int, top_k: int, x: int, ids: int, out: int
    ) -> None:
        self._count("experts")
        chosen = memory(ids, np.int32, tokens, top_k)
        if ((chosen < -1) | (chosen >= layer.count)).any():
            raise ValueError("an expert id is out of range")
        hidden = layer.down[0].shape[0]
        given = memory(x, np.float32, tokens, hidden).astype(np.float64)
        result = memory(out, np.float32, tokens, top_k, hidden)
        for token, rank in np.ndindex(tokens, top_k):
            expert = chosen[token, rank]
            if expert < 0:
                result[token, rank] = 0
                continue
            gate, up = layer.gate[expert] @ given[token], layer.up[expert] @ given[token]
            result[token, rank] = layer.down[expert] @ (gate / (1 + np.exp(-gate)) * up)

    def combine(self, tokens: int, top_k: int, hidden: int, rows: int, weights: int, out: int) -> None:
        self._count("combine")
        parts = memory(rows, np.float32, tokens, top_k, hidden).astype(np.float64)
        factors = memory(weights, np.float32, tokens, top_k).astype(np.float64)
        memory(out, np.float32, tokens, hidden)[...] += np.einsum("tk,tkh->th", factors, parts)

    def rms_norm(self, pool: ReferencePool, rows: int, columns: int, x: int, weight: int, eps: float, out: int) -> None:
        given = memory(x, np.float32, rows, columns).astype(np.float64)
        # Kernels take a float32: what a file that has no other says, and what JSON says in decimals, is the same then.
        normed = given / np.sqrt(np.square(given).mean(-1, keepdims=True) + np.float64(np.float32(eps)))
        memory(out, np.float32, rows, columns)[...] = normed * memory(weight, np.float32, columns)

    def prepare_heads(
        self,
        pool: ReferencePool,
        shape: HeadShape,
        rules: HeadRules,
        cache: LayerCache,
        tokens: int,
        angles: int,
        queries: int,
        keys: int,
        values: int,
    ) -> None:
        heads, kv_heads, dim = shape
        query_norm, key_norm, eps, scale, rotated = rules
        data, capacity, length = cache
        turns = memory(angles, np.float32, capacity, 2, rotated // 2)[length : length + tokens, :, None]
        stored = memory(data, np.float32, 2, kv_heads, capacity, dim)[:, :, length : length + tokens]

        def prepared(at: int, count: int, norm: int, factor: float) -> F64:
            if norm:
                self.rms_norm(pool, tokens * count, dim, at, norm, eps, at)
            given = memory(at, np.float32, tokens, count, dim) * np.float64(factor)
            pairs = given[..., : rotated // 2] + 1j * given[..., rotated // 2 : rotated]
            pairs *= turns[:, 0] + 1j * turns[:, 1]
            return np.concatenate((pairs.real, pairs.imag, given[..., rotated:]), -1)

        memory(queries, np.float32, tokens, heads, dim)[...] = prepared(queries, heads, query_norm, scale)
        stored[0] = prepared(keys, kv_heads, key_norm, 1.0).swapaxes(0, 1)
        stored[1] = memory(values, np.float32, tokens, kv_heads, dim).swapaxes(0, 1)

    def attend(
        self, pool: ReferencePool, shape: HeadShape, cache: LayerCache, tokens: int, queries: int, out: int
    ) -> None:
        self._count("attend")
        heads, kv_heads, dim = shape
        data, capacity, length = cache
        keys, values = memory(data, np.float32, 2, kv_heads, capacity, dim)[:, :, : length + tokens].astype(np.float64)
        given = memory(queries, np.float32, tokens, kv_heads, heads // kv_heads, dim).astype(np.float64)
        scores = np.einsum("thgd,hpd->thgp", given, keys)
        future = np.arange(length + tokens) > np.arange(length, length + tokens)[:, None]
        scores[np.broadcast_to(future[:, None, None], scores.shape)] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        found = np.einsum("thgp,hpd->thgd", powers / powers.sum(-1, keepdims=True), values)
        memory(out, np.float32, tokens, heads, dim)[...] = found.reshape(tokens, heads, dim)

    def quantize(self, format: str, rows: int, columns: int, x: int, out: int, pool: object = None) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            blocks = encode(format, memory(x, np.float32, rows, columns))
        memory(out, np.uint8, len(blocks))[...] = np.frombuffer(blocks, np.uint8)
        if not np.isfinite(decode(format, rows, columns, out)).all():
            raise ValueError(f"row 0, columns 0 to 31 cannot be stored as {format}: a value is not finite or too large")

    def dequantize(self, format: str, rows: int, columns: int, blocks: int, out: int, pool: object = None) -> None:
        memory(out, np.float32, rows, columns)[...] = decode(format, rows, columns, blocks)

    def parse_knob(self, name: str, text: str) -> str:
        return text
