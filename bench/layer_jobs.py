"""How each kernel between the products of a layer is timed on a CPU target: over more memory than the caches hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from kernel_jobs import COLUMNS, Array, Bench, Job, address
from pool import random_blocks

from strata_gen.model.kernel_name import KernelName
from strata_runtime.native_device import HOST_STREAM

HEADS, KV_HEADS, DIM = SHAPE = 32, 4, 128
"""Heads of an attention layer."""

TABLE_FORMAT = "q4_k"
"""What a table of embeddings is timed in."""


def _rows(bench: Bench, arrays: int) -> tuple[int, list[Array]]:
    """Return a number of rows, and float arrays with as many."""
    rows = max(1, bench.total // (arrays * COLUMNS * 4))
    return rows, [bench.floats(rows, COLUMNS) for _ in range(arrays)]


def norm_rows(bench: Bench, _name: KernelName) -> Job:
    """Rows of hidden states, quantised too."""
    rows, (x, out) = _rows(bench, 2)
    weight, q = bench.floats(COLUMNS), np.empty(rows * COLUMNS // 32 * 40, np.uint8)
    keep = (x, weight, out, q)
    where = (address(x), address(weight), 1e-6, address(out), address(q), HOST_STREAM)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.rms_norm(rows, COLUMNS, *where)), size)


def silu_rows(bench: Bench, _name: KernelName) -> Job:
    """Rows of gates, quantised too."""
    rows, (gate, up, out) = _rows(bench, 3)
    keep = (gate, up, out, np.empty(rows * COLUMNS // 32 * 40, np.uint8))
    where = (*map(address, keep), HOST_STREAM)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.silu_multiply(rows, COLUMNS, *where)), size)


def add_rows(bench: Bench, _name: KernelName) -> Job:
    """Rows of hidden states."""
    _, keep = _rows(bench, 2)
    where = (keep[0].size, *map(address, keep), HOST_STREAM)
    return Job(lambda: (keep, bench.native.device.add(*where)), 3 * keep[0].nbytes)


def argmax_rows(bench: Bench, _name: KernelName) -> Job:
    """Rows of logits."""
    rows, (x,) = _rows(bench, 1)
    out = np.empty(rows, np.int32)
    where = (rows, COLUMNS, address(x), address(out), HOST_STREAM)
    return Job(lambda: (x, out, bench.native.device.argmax(*where)), x.nbytes + out.nbytes)


def embed_rows(bench: Bench, _name: KernelName) -> Job:
    """Rows of a Q4_K table."""
    info = bench.formats[TABLE_FORMAT]
    rows = max(1, bench.total // (COLUMNS * 4 + info.row_bytes(COLUMNS)))
    table = random_blocks(info, rows * info.row_bytes(COLUMNS) // info.block_bytes, seed=0)
    ids, out = np.random.default_rng(0).permutation(rows).astype(np.int32), np.empty((rows, COLUMNS), np.float32)
    keep = (table, ids, out)
    where = (address(table), address(ids), rows, address(out), HOST_STREAM)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.embed(TABLE_FORMAT, COLUMNS, *where)), size)


def append_heads(bench: Bench, _name: KernelName) -> Job:
    """Tokens of a prompt into a float16 cache."""
    tokens = max(1, bench.total // ((2 * HEADS + 3 * KV_HEADS) * DIM * 4))
    queries, keys, values = (bench.floats(tokens, heads, DIM) for heads in (HEADS, KV_HEADS, KV_HEADS))
    angles, norm, position = bench.floats(tokens, 2, DIM // 2), bench.floats(DIM), np.zeros(1, np.int32)
    cache = np.empty((2, KV_HEADS, tokens, DIM), np.float16)
    keep = (queries, keys, values, angles, norm, position, cache)
    rules, place = (address(norm), address(norm), 1e-6, DIM**-0.5, DIM), (address(cache), "f16", tokens)
    where = (*map(address, (position, angles, queries, keys, values)), HOST_STREAM)
    size = sum(array.nbytes for array in keep) + queries.nbytes
    return Job(lambda: (keep, bench.native.device.prepare_heads(SHAPE, rules, place, tokens, *where)), size)


def attend_window(bench: Bench, _name: KernelName) -> Job:
    """One token over a long float16 cache."""
    capacity = max(1, bench.total // (16 * 2 * KV_HEADS * DIM * 2))  # slow on a CPU: a sixteenth of the memory
    cache = bench.floats(2, KV_HEADS, capacity, DIM).astype(np.float16)
    queries, out, position = bench.floats(1, HEADS, DIM), np.empty((1, HEADS, DIM), np.float32), np.zeros(1, np.int32)
    position[0] = capacity - 1
    workspace = np.empty(bench.native.device.attend_workspace(SHAPE, 1, capacity), np.uint8)
    keep, place = (cache, queries, out, position, workspace), (address(cache), "f16", capacity)
    where = (address(position), address(queries), address(out), 0, address(workspace), HOST_STREAM)
    return Job(lambda: (keep, bench.native.device.attend(SHAPE, place, 1, *where)), cache.nbytes)


def attend_join(bench: Bench, name: KernelName) -> Job:
    """What `attend_window` times: the two are one call."""
    return attend_window(bench, name)


LAYER_JOBS: Mapping[str, Callable[[Bench, KernelName], Job]] = {
    job.__name__: job
    for job in (
        add_rows,
        append_heads,
        argmax_rows,
        attend_join,
        attend_window,
        embed_rows,
        norm_rows,
        silu_rows,
    )
}
"""How each of these kernels is timed, by its name."""
