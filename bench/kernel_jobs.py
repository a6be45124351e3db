"""How each kernel is timed: for every one, a call over more memory than the caches hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from pool import random_blocks

from strata_gen.model.kernel_name import KernelName
from strata_runtime.memory import huge_bytes

COLUMNS = 2048
POOL_TOKENS, TOP_K = 1, 8
HEADS, KV_HEADS, HEAD_DIM = 32, 4, 128
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Job:
    """One call to be timed, and the bytes that it reads and writes."""

    call: Callable[[], object]
    bytes: int


def address(array: Array) -> int:
    """Return the address of an array's memory."""
    return int(array.ctypes.data)


def huge_copy(array: Array) -> Array:
    """Return the same bytes in huge pages."""
    out = huge_bytes(array.nbytes)
    out[:] = array
    return out


class Bench:
    """One package, with a pool per instruction set and number of threads."""

    def __init__(self, package: Any, threads: int, total: int) -> None:
        self.native, self.threads, self.total = package.native, threads, total
        self.formats = {info.name: info for info in package.formats}
        self.pools: dict[tuple[str | None, int], Any] = {}

    def pool(self, isa: str = "", threads: int | None = None) -> Any:
        """Return the pool of an instruction set; of the best one when it does not matter."""
        key = (isa or None, self.threads if threads is None else threads)
        if key not in self.pools:
            self.pools[key] = self.native.make_pool([("pool.threads", str(key[1]))], isa=key[0])
        return self.pools[key]

    def floats(self, *shape: int) -> Array:
        """Return normal numbers."""
        return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)

    def weights(self, name: str, columns: int, rows: int = 0) -> tuple[int, Array]:
        """Return a number of rows, at least 32, and their blocks; as many as `total` holds unless `rows` are given."""
        info = self.formats[name]
        rows = rows or max(32, self.total // info.row_bytes(columns))
        return rows, random_blocks(info, rows * info.row_bytes(columns) // info.block_bytes, seed=0)

    def row_bytes(self, name: KernelName) -> int:
        """Return the stored bytes of a row of `COLUMNS`."""
        size: int = self.formats[name.format].row_bytes(COLUMNS)
        return size

    def layout(self, name: KernelName) -> Any:
        """Return the compute layout of a name's format for its instruction set."""
        return self.native.layout(self.pool(name.isa), name.format)

    def arranged(self, name: KernelName, rows: int, columns: int, blocks: Array) -> Array:
        """Return rows in that layout, in huge pages as the engine has them; as they are stored where there is none."""
        layout = self.layout(name)
        out = huge_bytes(len(blocks) if layout is None else layout.bytes(rows, columns))
        if layout is None:
            out[:] = blocks
        else:
            self.native.arrange(self.pool(name.isa), layout, rows, columns, address(blocks), address(out))
        return out

    def read(self, threads: int) -> Job:
        """Return a read of `total` bytes by `threads` threads, which a bandwidth is measured with."""
        buffer, pool = huge_bytes(max(self.total, 1 << 20)), self.pool("", threads)
        buffer.fill(1)
        return Job(lambda: self.native.checksum(pool, address(buffer), buffer.nbytes), buffer.nbytes)


def _dot(bench: Bench, name: KernelName, rows: int, weights: Array) -> Job:
    x, out = bench.floats(name.tokens, COLUMNS), np.empty((name.tokens, rows), np.float32)
    prepared = x.view(np.uint8)
    if name.activation != "float":
        quantize = f"quantize_input.{name.activation}.{name.isa}"
        prepared = np.empty((name.tokens, bench.native.quantize_input(quantize, COLUMNS, address(x), 0)), np.uint8)
        for given, row in zip(x, prepared, strict=True):
            bench.native.quantize_input(quantize, COLUMNS, address(given), address(row))
    arguments = (str(name), rows, COLUMNS, address(weights), address(prepared), address(out))
    dot = getattr(bench.native, name.kernel)
    keep = (weights, prepared, out)
    return Job(lambda: (keep, dot(*arguments)), weights.nbytes + prepared.nbytes + out.nbytes)


def rows_dot(bench: Bench, name: KernelName) -> Job:
    """All rows of a large matrix in one call."""
    return _dot(bench, name, *bench.weights(name.format, COLUMNS))


def interleaved_dot(bench: Bench, name: KernelName) -> Job:
    """All groups of a large matrix in one call."""
    rows, weights = bench.weights(name.format, COLUMNS)
    rows = rows // bench.layout(name).rows * bench.layout(name).rows
    return _dot(bench, name, rows, bench.arranged(name, rows, COLUMNS, weights))


def interleaved_dot_ahead(bench: Bench, name: KernelName) -> Job:
    """The same groups, fetched ahead by hand."""
    return interleaved_dot(bench, name)


def interleave(bench: Bench, name: KernelName) -> Job:
    """One group of very long rows."""
    layout, info = bench.layout(name), bench.formats[name.format]
    columns = max(1, bench.total // 2 // layout.rows // info.row_bytes(COLUMNS)) * COLUMNS
    _, blocks = bench.weights(name.format, columns, layout.rows)
    out = np.empty(layout.bytes(layout.rows, columns), np.uint8)
    arguments = (str(name), columns, address(blocks), address(out))
    keep = (blocks, out)
    return Job(lambda: (keep, bench.native.interleave(*arguments)), blocks.nbytes + out.nbytes)


def arrange(bench: Bench, name: KernelName) -> Job:
    """A large matrix."""
    rows, blocks = bench.weights(name.format, COLUMNS, max(32, bench.total // 2 // bench.row_bytes(name)))
    layout = bench.layout(name)
    out = np.empty(layout.bytes(rows, COLUMNS), np.uint8)
    arguments = (bench.pool(name.isa), layout, rows, COLUMNS, address(blocks), address(out))
    keep = (blocks, out)
    return Job(lambda: (keep, bench.native.arrange(*arguments)), blocks.nbytes + out.nbytes)


def xor_words(bench: Bench, name: KernelName) -> Job:
    """One buffer."""
    buffer = huge_bytes(max(bench.total, 1 << 20))
    buffer.fill(1)
    arguments = (str(name), address(buffer), buffer.nbytes // 8)
    return Job(lambda: (buffer, bench.native.xor_words(*arguments)), buffer.nbytes)


def quantize_input(bench: Bench, name: KernelName) -> Job:
    """One very long input."""
    columns = max(1, bench.total // 4 // COLUMNS) * COLUMNS
    x = bench.floats(columns)
    out = np.empty(bench.native.quantize_input(str(name), columns, address(x), 0), np.uint8)
    arguments = (str(name), columns, address(x), address(out))
    keep = (x, out)
    return Job(lambda: (keep, bench.native.quantize_input(*arguments)), x.nbytes + out.nbytes)


def silu_multiply(bench: Bench, name: KernelName) -> Job:
    """Two very long vectors, of which one is read and written."""
    gate, up = bench.floats(bench.total // 8), bench.floats(bench.total // 8)
    arguments = (str(name), len(gate), address(gate), address(up))
    keep = (gate, up)
    return Job(lambda: (keep, bench.native.silu_multiply(*arguments)), 2 * gate.nbytes + up.nbytes)


def rms_norm(bench: Bench, _name: KernelName) -> Job:
    """Rows that together take all the bytes."""
    rows = max(1, bench.total // (8 * COLUMNS))
    x, weight, out = bench.floats(rows, COLUMNS), bench.floats(COLUMNS), np.empty((rows, COLUMNS), np.float32)
    arguments = (bench.pool(), rows, COLUMNS, address(x), address(weight), 1e-6, address(out))
    keep = (x, weight, out)
    return Job(lambda: (keep, bench.native.rms_norm(*arguments)), x.nbytes + out.nbytes)


def prepare_heads(bench: Bench, _name: KernelName) -> Job:
    """Many tokens behind an empty cache."""
    tokens = max(1, bench.total // (4 * HEAD_DIM * (2 * HEADS + 4 * KV_HEADS + 1)))
    queries, values = bench.floats(tokens, HEADS, HEAD_DIM), bench.floats(tokens, KV_HEADS, HEAD_DIM)
    keys, weight = bench.floats(tokens, KV_HEADS, HEAD_DIM), bench.floats(HEAD_DIM)
    cache = np.empty((2, KV_HEADS, tokens, HEAD_DIM), np.float32)
    angles = np.full((tokens, 2, HEAD_DIM // 2), np.sqrt(0.5), np.float32)
    rules = (address(weight), address(weight), 1e-6, 1.0, HEAD_DIM)
    where = (tokens, address(angles), address(queries), address(keys), address(values))
    arguments = (bench.pool(), (HEADS, KV_HEADS, HEAD_DIM), rules, (address(cache), tokens, 0), *where)
    keep = (weight, cache, angles, queries, keys, values)
    size = 2 * queries.nbytes + keys.nbytes + values.nbytes + cache.nbytes + angles.nbytes
    return Job(lambda: (keep, bench.native.prepare_heads(*arguments)), size)


def attend_span(bench: Bench, name: KernelName) -> Job:
    """One span of 256 positions and the eight queries that share it, which is small: its time is what counts."""
    queries, out = bench.floats(TOP_K, HEAD_DIM), np.empty((TOP_K, HEAD_DIM), np.float32)
    keys, values, limits = bench.floats(256, HEAD_DIM), bench.floats(256, HEAD_DIM), np.empty((2, TOP_K), np.float32)
    keep = (queries, keys, values, *limits, out)
    arguments = (str(name), TOP_K, HEAD_DIM, 256, *map(address, keep))
    return Job(lambda: (keep, bench.native.attend_span(*arguments)), keys.nbytes + values.nbytes)


def attend(bench: Bench, name: KernelName) -> Job:
    """One token over a context that takes all the bytes."""
    context = max(1, bench.total // (8 * KV_HEADS * HEAD_DIM))
    cache, queries = bench.floats(2, KV_HEADS, context, HEAD_DIM), bench.floats(POOL_TOKENS, HEADS, HEAD_DIM)
    out = np.empty_like(queries)
    where = ((address(cache), context, context - POOL_TOKENS), POOL_TOKENS, address(queries), address(out))
    arguments = (bench.pool(name.isa), (HEADS, KV_HEADS, HEAD_DIM), *where)
    keep = (cache, queries, out)
    return Job(lambda: (keep, bench.native.attend(*arguments)), cache.nbytes)


def linear(bench: Bench, name: KernelName) -> Job:
    """A large matrix, in its compute layout where it has one, and one token."""
    rows, blocks = bench.weights(name.format, COLUMNS)
    weights = bench.arranged(name, rows, COLUMNS, blocks)
    x, out = bench.floats(POOL_TOKENS, COLUMNS), np.empty((POOL_TOKENS, rows), np.float32)
    matrix = bench.native.make_matrix(
        name.format, rows, COLUMNS, address(weights), weights.nbytes, weights, layout=bench.layout(name)
    )
    arguments = (bench.pool(name.isa), matrix, POOL_TOKENS, address(x), address(out))
    keep = (x, out)
    return Job(lambda: (keep, bench.native.linear(*arguments)), weights.nbytes + x.nbytes + out.nbytes)


def moe_experts(bench: Bench, name: KernelName) -> Job:
    """One token and its experts, arranged likewise, which take all the bytes; `bench/pool.py` looks closer."""
    hidden = COLUMNS
    info = bench.formats[name.format]
    width = max(1, bench.total // TOP_K // 3 // info.row_bytes(hidden) // 256) * 256
    parts = [
        bench.arranged(name, rows, columns, bench.weights(name.format, columns, rows)[1])
        for rows, columns in ((width, hidden), (width, hidden), (hidden, width))
    ]
    weights = [[huge_copy(part) for part in parts] for _ in range(TOP_K)]
    layer = bench.native.make_experts(
        hidden,
        width,
        *((name.format, [address(expert[part]) for expert in weights], [], bench.layout(name)) for part in range(3)),
        weights,
    )
    x, out = bench.floats(POOL_TOKENS, hidden), np.empty((POOL_TOKENS * TOP_K, hidden), np.float32)
    ids = np.arange(TOP_K, dtype=np.int32)
    arguments = (bench.pool(name.isa), layer, POOL_TOKENS, TOP_K, address(x), address(ids), address(out))
    keep = (x, ids, out)
    read = TOP_K * sum(part.nbytes for part in parts)
    return Job(lambda: (keep, bench.native.experts(*arguments)), read + x.nbytes + out.nbytes)


def combine(bench: Bench, _name: KernelName) -> Job:
    """The rows of many tokens."""
    tokens = max(1, bench.total // (TOP_K * COLUMNS * 4))
    rows, weights, out = (
        bench.floats(tokens * TOP_K, COLUMNS),
        bench.floats(tokens, TOP_K),
        bench.floats(tokens, COLUMNS),
    )
    arguments = (tokens, TOP_K, COLUMNS, address(rows), address(weights), address(out))
    keep = (rows, weights, out)
    return Job(lambda: (keep, bench.native.combine(*arguments)), rows.nbytes + weights.nbytes + 2 * out.nbytes)


def checksum(bench: Bench, _name: KernelName) -> Job:
    """One buffer."""
    return bench.read(bench.threads)


POOL_JOBS: Mapping[str, Callable[[Bench, KernelName], Job]] = {
    job.__name__: job
    for job in (
        arrange,
        attend,
        attend_span,
        checksum,
        combine,
        interleave,
        interleaved_dot,
        interleaved_dot_ahead,
        linear,
        moe_experts,
        prepare_heads,
        quantize_input,
        rms_norm,
        rows_dot,
        silu_multiply,
        xor_words,
    )
}
"""How each kernel of the pool, and what it is made of, is timed, by its name."""

POOL_KERNELS = frozenset({"arrange", "attend", "checksum", "linear", "moe_experts", "prepare_heads", "rms_norm"})
"""Kernels that use all threads of the pool."""
