"""How each device kernel is timed: what is per window takes microseconds, the rest more memory than the caches hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from device_products import expert_down, expert_gate_up, quantize_rows, to_floats, window_linear
from kernel_jobs import COLUMNS, TOP_K, Array, Bench, Job, address

from strata_gen.model.kernel_name import KernelName
from strata_runtime.native_device import HOST_STREAM

TOKENS, EXPERTS = 8, 128


def router_topk(bench: Bench, _name: KernelName) -> Job:
    """The logits of many tokens."""
    tokens = max(1, bench.total // (4 * EXPERTS))
    logits, bias = bench.floats(tokens, EXPERTS), bench.floats(EXPERTS)
    ids, weights = np.empty((tokens, TOP_K), np.int32), np.empty((tokens, TOP_K), np.float32)
    where = (address(logits), address(bias), True, True, 1.0, address(ids), address(weights))
    keep = (logits, bias, ids, weights)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.router_topk(tokens, EXPERTS, TOP_K, *where, HOST_STREAM)), size)


def ecap_redirect(bench: Bench, _name: KernelName) -> Job:
    """A window as a whole, which is small: its time is what counts."""
    ids = np.arange(TOKENS * TOP_K, dtype=np.int32).reshape(TOKENS, TOP_K)
    weights = np.abs(bench.floats(TOKENS, TOP_K))
    arguments = (TOKENS, TOP_K, 3 * TOP_K, address(ids), address(weights), HOST_STREAM)
    keep = (ids, weights)
    return Job(lambda: (keep, bench.native.device.ecap_redirect(*arguments)), 2 * (ids.nbytes + weights.nbytes))


def _routes() -> tuple[Array, Array, Array]:
    """Return ids and weights of a window, and slots of every second expert."""
    generator = np.random.default_rng(0)
    ids = np.stack([generator.permutation(EXPERTS)[:TOP_K] for _ in range(TOKENS)]).astype(np.int32)
    slots = np.where(np.arange(EXPERTS) % 2, -1, np.arange(EXPERTS) // 2).astype(np.int32)
    return ids, generator.random(ids.shape, dtype=np.float32), slots


def tail_skip(bench: Bench, _name: KernelName) -> Job:
    """A window as a whole."""
    ids, weights, slots = keep = _routes()
    arguments = (TOKENS, TOP_K, EXPERTS, TOP_K - 1, address(slots), address(ids), address(weights), HOST_STREAM)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.tail_skip(*arguments)), size)


def resident_plan(bench: Bench, _name: KernelName) -> Job:
    """A window as a whole."""
    ids, weights, slots = _routes()
    plan, error = np.zeros(bench.native.device.PLAN_BYTES // 4, np.int32), np.zeros(1, np.uint32)
    keep = (ids, weights, slots, plan, error)
    arguments = (TOKENS, TOP_K, EXPERTS, EXPERTS, False, *map(address, keep), HOST_STREAM)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.resident_plan(*arguments)), size)


def publish(bench: Bench, _name: KernelName) -> Job:
    """A window as a whole."""
    ids, weights, _ = _routes()
    x, sequence = bench.floats(TOKENS, COLUMNS), np.zeros(1, np.uint32)
    memory = np.zeros(bench.native.device.DOORBELL_BYTES + x.nbytes + 64, np.uint8)
    block = address(memory) + -address(memory) % 64
    arguments = (
        0,
        TOKENS,
        TOP_K,
        COLUMNS,
        address(x),
        address(ids),
        address(weights),
        block,
        address(sequence),
        0,
        1,
        HOST_STREAM,
    )
    keep = (x, ids, weights, memory, sequence)
    return Job(lambda: (keep, bench.native.device.publish(*arguments)), 2 * (x.nbytes + ids.nbytes + weights.nbytes))


def time_stamp(bench: Bench, _name: KernelName) -> Job:
    """One of a window's stamps."""
    stamp = np.zeros(2, np.uint64)
    return Job(lambda: (stamp, bench.native.device.time_stamp(address(stamp), 1, HOST_STREAM)), stamp.nbytes)


def flag_wait(bench: Bench, _name: KernelName) -> Job:
    """A word that is there: what a wait costs that is none."""
    words = np.array([1, 0], np.uint32)
    arguments = (address(words), 0, 1, 0, address(words) + 4, 1, 1, 0, HOST_STREAM)
    return Job(lambda: (words, bench.native.device.flag_wait(*arguments)), words.nbytes)


def _rows(bench: Bench) -> tuple[int, Array, Array]:
    """Return a number of tokens, all their rows, and weights of which half are below 0.5."""
    tokens = max(1, bench.total // (2 * TOP_K * COLUMNS * 4))
    return tokens, bench.floats(tokens * TOP_K, COLUMNS), np.random.default_rng(0).random((tokens, TOP_K), np.float32)


def rows_copy(bench: Bench, _name: KernelName) -> Job:
    """The heavier half of many rows; the others become zeros."""
    _, rows, weights = _rows(bench)
    to = np.empty_like(rows)
    arguments = (*rows.shape, "at_least", 0.5, True, address(rows), 0, address(weights), address(to), HOST_STREAM)
    keep = (rows, weights, to)
    return Job(lambda: (keep, bench.native.device.rows_copy(*arguments)), rows.nbytes // 2 + weights.nbytes + to.nbytes)


def late_add(bench: Bench, _name: KernelName) -> Job:
    """The lighter half of many rows."""
    tokens, rows, weights = _rows(bench)
    residual = bench.floats(tokens, COLUMNS)
    arguments = (
        tokens,
        TOP_K,
        COLUMNS,
        "below",
        0.5,
        address(rows),
        0,
        address(weights),
        address(residual),
        HOST_STREAM,
    )
    keep = (rows, weights, residual)
    size = rows.nbytes // 2 + weights.nbytes + 2 * residual.nbytes
    return Job(lambda: (keep, bench.native.device.late_add(*arguments)), size)


DEVICE_JOBS: Mapping[str, Callable[[Bench, KernelName], Job]] = {
    job.__name__: job
    for job in (
        ecap_redirect,
        expert_down,
        expert_gate_up,
        flag_wait,
        time_stamp,
        late_add,
        publish,
        quantize_rows,
        resident_plan,
        router_topk,
        rows_copy,
        tail_skip,
        to_floats,
        window_linear,
    )
}
"""How each device kernel is timed, by its name."""
