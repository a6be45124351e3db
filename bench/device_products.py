"""How the device kernels that read weights are timed, in Q4_K: more weights than the caches hold."""

from __future__ import annotations

import numpy as np
from kernel_jobs import COLUMNS, TOP_K, Array, Bench, Job, address
from pool import random_blocks

from strata_gen.model.kernel_name import KernelName
from strata_runtime.native_device import HOST_STREAM, quantized_bytes

TOKENS, WIDTH = 8, 768
FORMAT = "q4_k"


def _matrices(bench: Bench, count: int, rows: int, columns: int) -> tuple[Array, int]:
    """Return as many device matrices, one behind the other, and the bytes of one."""
    info = bench.formats[FORMAT]
    stored = random_blocks(info, rows * info.row_bytes(columns) // info.block_bytes, seed=0)
    size: int = bench.native.device.matrix_bytes(FORMAT, rows, columns)
    memory = np.empty((count, size), np.uint8)
    bench.native.device.arrange(FORMAT, rows, columns, address(stored), address(memory))
    memory[1:] = memory[0]
    return memory, size


def _quantised(bench: Bench, rows: int, columns: int) -> Array:
    x, memory = bench.floats(rows, columns), np.zeros(quantized_bytes(rows, columns) + 64, np.uint8)
    q = memory[-address(memory) % 64 :]
    bench.native.device.quantize_rows(rows, columns, address(x), address(q), HOST_STREAM)
    return q


def _experts(bench: Bench, matrices: int, rows: int, columns: int) -> tuple[Array, Array, int]:
    """Return a plan of four tokens per expert, slots with some matrices each, and the bytes of one matrix."""
    size: int = bench.native.device.matrix_bytes(FORMAT, rows, columns)
    groups = max(1, min(TOKENS * TOP_K // 4, bench.total // (matrices * size)))
    slots, size = _matrices(bench, groups * matrices, rows, columns)
    ids = np.repeat(np.arange(groups, dtype=np.int32), 4)
    ids = np.concatenate([ids, np.full(TOKENS * TOP_K - len(ids), -1, np.int32)])
    order, error = np.arange(groups, dtype=np.int32), np.zeros(1, np.uint32)
    plan = np.zeros(bench.native.device.PLAN_BYTES // 4, np.int32)
    where = (address(ids), 0, address(order), address(plan), address(error))
    bench.native.device.resident_plan(TOKENS, TOP_K, groups, groups, True, *where, HOST_STREAM)
    return plan, slots, size


def expert_gate_up(bench: Bench, _name: KernelName) -> Job:
    """Experts that four tokens share each."""
    plan, slots, size = _experts(bench, 2, WIDTH, COLUMNS)
    q, middle = _quantised(bench, TOKENS, COLUMNS), np.zeros((TOKENS * TOP_K, WIDTH), np.float32)
    where = (address(plan), address(slots), 2 * size, 0, size, 0, 0, 0, address(q), address(middle), 0, HOST_STREAM)
    arguments = (FORMAT, TOKENS, TOP_K, COLUMNS, WIDTH, *where)
    keep = (plan, slots, q, middle)
    return Job(lambda: (keep, bench.native.device.expert_gate_up(*arguments)), slots.nbytes + q.nbytes + middle.nbytes)


def expert_down(bench: Bench, _name: KernelName) -> Job:
    """Experts that four tokens share each."""
    plan, slots, size = _experts(bench, 1, COLUMNS, WIDTH)
    q, rows = _quantised(bench, TOKENS * TOP_K, WIDTH), np.zeros((TOKENS * TOP_K, COLUMNS), np.float32)
    where = (address(plan), address(slots), size, 0, 0, 0, address(q), address(rows), HOST_STREAM)
    arguments = (FORMAT, TOKENS, TOP_K, COLUMNS, WIDTH, *where)
    keep = (plan, slots, q, rows)
    return Job(lambda: (keep, bench.native.device.expert_down(*arguments)), slots.nbytes + q.nbytes + rows.nbytes)


def window_linear(bench: Bench, _name: KernelName) -> Job:
    """A large matrix and four tokens."""
    size = bench.native.device.matrix_bytes(FORMAT, 16, COLUMNS)
    rows = 16 * max(1, bench.total // size)
    weights, _ = _matrices(bench, 1, rows, COLUMNS)
    q, out = _quantised(bench, 4, COLUMNS), np.zeros((4, rows), np.float32)
    matrices = [((FORMAT, rows, COLUMNS, address(weights), 1.0), address(out))]
    keep = (weights, q, out)
    size = sum(array.nbytes for array in keep)
    return Job(lambda: (keep, bench.native.device.linear(matrices, 4, 0, address(q), False, HOST_STREAM)), size)


def quantize_rows(bench: Bench, _name: KernelName) -> Job:
    """Many rows."""
    rows = max(1, bench.total // (6 * COLUMNS))
    x, memory = bench.floats(rows, COLUMNS), np.zeros(quantized_bytes(rows, COLUMNS) + 64, np.uint8)
    arguments = (rows, COLUMNS, address(x), address(memory) + -address(memory) % 64, HOST_STREAM)
    return Job(lambda: (x, memory, bench.native.device.quantize_rows(*arguments)), x.nbytes + memory.nbytes)


def to_floats(bench: Bench, _name: KernelName) -> Job:
    """A matrix to bfloat16."""
    rows = 16 * max(1, bench.total // (16 * COLUMNS * 3))
    weights, _ = _matrices(bench, 1, rows, COLUMNS)
    out = np.zeros((rows, COLUMNS), np.uint16)
    arguments = ((FORMAT, rows, COLUMNS, address(weights), 1.0), "bf16", address(out), HOST_STREAM)
    keep = (weights, out)
    return Job(lambda: (keep, bench.native.device.to_floats(*arguments)), weights.nbytes + out.nbytes)
