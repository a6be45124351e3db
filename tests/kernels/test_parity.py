"""Every kernel instance of the library against its reference, within the tolerance that its spec states.

The test of a kernel is `test_KERNEL`, with the canonical name of each instance as its parameter.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from strata_gen.model.format import Activation
from strata_gen.model.kernel_name import KernelName
from strata_gen.model.specset import SpecSet
from support import layer_reference, references
from support.blocks import block_of
from support.called_kernels import CalledKernels
from support.kernel_instances import built_names
from support.kernels import Floats, Stored, bits, error_scale, product, silu

pytestmark = pytest.mark.native


def instances_of(kernel: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("name", built_names(kernel), ids=str)


def bound(specs: SpecSet, name: KernelName) -> float:
    (kernel,) = (kernel for kernel in specs.kernels if kernel.name == name.kernel)
    tolerance = kernel.tolerance(name.activation or Activation.FLOAT)
    assert tolerance is not None
    return tolerance.bound


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def widths(name: str) -> tuple[int, ...]:
    return {1: (1, 17, 100, 256), 32: (32, 96, 704), 256: (256, 768)}[block_of(name)]


@instances_of("rows_dot")
def test_rows_dot(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for columns in widths(name.format):
        for rows in (1, 37):  # whole tiles and what is left of one
            weights, x = kernels.random(name.format, rows, columns), random(columns, name.tokens, columns)
            error = np.abs(kernels.rows_dot(name, weights, x) - references.rows_dot(weights, x))
            assert (error <= bound(specs, name) * error_scale(weights, x)).all(), (rows, columns)


@instances_of("interleaved_dot")
def test_interleaved_dot(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for columns in widths(name.format):
        for rows in (16, 48):
            weights, x = kernels.random(name.format, rows, columns), random(columns, name.tokens, columns)
            error = np.abs(kernels.interleaved_dot(name, weights, x) - references.interleaved_dot(weights, x))
            assert (error <= bound(specs, name) * error_scale(weights, x)).all(), (rows, columns)


@instances_of("interleaved_dot_ahead")
def test_interleaved_dot_ahead(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for columns in widths(name.format):
        weights, x = kernels.random(name.format, 48, columns), random(columns, name.tokens, columns)
        products = kernels.interleaved_dot_ahead(name, weights, x)
        error = np.abs(products - references.interleaved_dot_ahead(weights, x))
        assert (error <= bound(specs, name) * error_scale(weights, x)).all(), columns
        plain = kernels.interleaved_dot(replace(name, kernel="interleaved_dot"), weights, x)
        assert np.array_equal(bits(products), bits(plain)), columns


@instances_of("interleave")
def test_interleave(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for columns in widths(name.format):
        weights = kernels.random(name.format, 16, columns)
        assert np.array_equal(kernels.interleave(str(name), weights), references.interleave(weights)), columns


@instances_of("arrange")
def test_arrange(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for rows in (1, 15, 16, 17, 33, 320):
        weights = kernels.random(name.format, rows, 2 * block_of(name.format), seed=rows)
        assert np.array_equal(kernels.arrange(weights), references.arrange(weights)), rows


@instances_of("xor_words")
def test_xor_words(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for size in (0, 8, 256, 4096 + 24, 100_000):
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        assert kernels.xor_words(str(name), data) == references.xor_words(data), size


@instances_of("linear")
def test_linear(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for columns in widths(name.format):
        weights, x = kernels.random(name.format, 70, columns), random(columns, 21, columns)
        for kernels.arranged in (False, True):
            error = np.abs(kernels.linear(weights, x) - references.linear(weights, x))
            assert (error <= bound(specs, name) * error_scale(weights, x)).all(), (columns, kernels.arranged)


def unit_weights(kernels: CalledKernels, name: str, rows: int, columns: int, seed: int) -> Stored:
    """Weights whose products with inputs near 1 are near 1."""
    size = 0.01 / float(np.linalg.norm(kernels.random(name, 1, columns).decoded))
    return kernels.random(name, rows, columns, seed, size)


@instances_of("moe_experts")
def test_moe_experts(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    hidden, width = {1: (33, 70), 32: (96, 64), 256: (256, 512)}[block_of(name.format)]
    shapes = ((width, hidden), (width, hidden), (hidden, width))
    layer = [
        tuple(unit_weights(kernels, name.format, *shape, seed=3 * expert + part) for part, shape in enumerate(shapes))
        for expert in range(4)
    ]
    x, ids = random(1, 9, hidden), np.random.default_rng(2).integers(0, 4, (9, 3), np.int32)
    expected = references.moe_experts(layer, x, ids)
    for kernels.arranged in (False, True):
        require_close(specs, name, layer, x, ids, np.abs(kernels.experts(layer, x, ids) - expected))


def require_close(
    specs: SpecSet, name: KernelName, layer: list[tuple[Stored, ...]], x: Floats, ids: NDArray[np.int32], error: Floats
) -> None:
    for entry, expert in enumerate(ids.ravel()):
        gate, up, down = layer[expert]
        given = x[entry // 3][None]
        middle = silu(product(gate, given)) * product(up, given)
        scale = error_scale(down, middle.astype(np.float32))[0]
        assert (error[entry] <= bound(specs, name) * scale).all(), entry


@instances_of("quantize_input")
def test_quantize_input(kernels: CalledKernels, name: KernelName) -> None:
    x = random(3, 16 * 256).reshape(16, 256) * np.float32(10.0) ** np.arange(-8, 8, dtype=np.float32)[:, None]
    x[0], x[1], x[2] = 0, 1e-38, np.arange(256) - 127.5  # halves are rounded to even
    x[3, 40], x[4, 40], x[5, :5] = np.inf, np.nan, 3e38
    expected = references.quantize_input(str(name.activation), x.ravel())
    prepared, at = kernels.quantize_input(str(name), x.ravel()), 0
    for part, dtype, columns in references.INPUT_PARTS[str(name.activation)]:
        size = x.size // columns * np.dtype(dtype).itemsize
        found = prepared[at : at + size].view(dtype)
        assert np.array_equal(found, expected[part], equal_nan=found.dtype.kind == "f"), part
        at += size


@instances_of("silu_multiply")
def test_silu_multiply(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    gate = np.concatenate([np.linspace(-80, 80, 1001, dtype=np.float32), random(4, 1002) * 3, [np.float32(0)]])
    up = random(5, len(gate))
    expected = references.silu_multiply(gate, up)
    error = np.abs(kernels.silu_multiply(str(name), gate, up) - expected)
    assert (error <= bound(specs, name) * np.abs(expected)).all()


@instances_of("rms_norm")
def test_rms_norm(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for rows, columns in ((1, 1), (3, 17), (70, 2048)):
        for size in (1e-4, 1, 1e6):
            x, weight = random(columns, rows, columns) * np.float32(size), random(7, columns)
            expected = references.rms_norm(x, weight, 1e-6)
            error = np.abs(kernels.rms_norm(x, weight, 1e-6) - expected)
            assert (error <= bound(specs, name) * np.abs(expected)).all(), (rows, columns, size)


@instances_of("prepare_heads")
def test_prepare_heads(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    tokens, heads, kv_heads, capacity, start = 40, 6, 2, 300, 250
    for dim, rope_dim in ((2, 2), (20, 14), (128, 128)):
        half = rope_dim // 2
        frequencies = 1e4 ** -(np.arange(half) / half)
        turns = np.arange(capacity)[:, None] * frequencies
        angles = np.stack((np.cos(turns), np.sin(turns)), 1).astype(np.float32)
        for norms in (None, (random(1, dim), random(2, dim))):
            given = tuple(random(seed, tokens, count, dim) for seed, count in enumerate((heads, kv_heads, kv_heads)))
            cache = np.full((2, kv_heads, capacity, dim), -7, np.float32)
            queries = kernels.prepare_heads(given, cache, start, norms, 1e-6, 0.125, angles)
            keys, values = cache[:, :, start : start + tokens].swapaxes(1, 2)
            for found, which, scale in ((queries, 0, 0.125), (keys, 1, 1.0)):
                norm = None if norms is None else norms[which]
                expected = references.prepare_heads(given[which], norm, 1e-6, scale, frequencies, start)
                flat = references.prepare_heads(given[which], norm, 1e-6, scale, 0 * frequencies, start)
                pairs = np.abs(flat[..., :half]) + np.abs(flat[..., half:rope_dim])
                largest = np.concatenate((pairs, pairs, np.abs(flat[..., rope_dim:])), -1)
                assert (np.abs(found - expected) <= bound(specs, name) * largest).all(), (dim, which)
            assert np.array_equal(values, given[2])
            assert (cache[:, :, :start] == -7).all()
            assert (cache[:, :, start + tokens :] == -7).all()


@instances_of("attend_span")
def test_attend_span(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for group, dim in ((1, 128), (5, 20), (8, 64), (12, 80)):
        for positions in (1, 7, 33, 256):
            for size in (0.1, 3):
                queries, keys = random(dim, group, dim) * np.float32(size), random(positions, positions, dim)
                values = random(3, positions, dim)
                maxima, sums, out = kernels.attend_span(str(name), queries, keys, values)
                scores = queries.astype(np.float64) @ keys.T
                np.testing.assert_allclose(maxima, scores.max(-1), rtol=1e-6, atol=1e-5)
                expected = references.attend_span(queries, keys, values)
                error = np.abs(out / sums[:, None] - expected)
                assert (error <= bound(specs, name) * np.abs(values).max(0)).all(), (group, dim, positions, size)


@instances_of("attend")
def test_attend(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for heads, kv_heads, dim in ((4, 4, 20), (24, 2, 64)):
        cache = random(heads, 2, kv_heads, 900, dim)
        for tokens, start in ((1, 0), (5, 254), (8, 800)):
            queries = random(tokens, tokens, heads, dim)
            expected = references.attend(queries, cache, start)
            error = np.abs(kernels.attend(queries, cache, start) - expected)
            assert (error <= bound(specs, name) * np.abs(cache[1]).max()).all(), (heads, tokens)


@instances_of("combine")
def test_combine(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    rows, weights, out = random(6, 7 * 4, 70), random(7, 7, 4), random(8, 7, 70)
    assert bound(specs, name) == 0
    assert np.array_equal(bits(kernels.combine(rows, weights, out)), bits(references.combine(rows, weights, out)))


@instances_of("checksum")
def test_checksum(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for size in (0, 7, 8, 100_003, 1 << 20):
        data = np.random.default_rng(size).integers(0, 256, size, np.uint8)
        assert kernels.checksum(data) == references.checksum(data)


@instances_of("router_topk")
def test_router_topk(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for experts, top_k in ((1, 1), (48, 8), (130, 10)):
        logits, bias = random(experts, 9, experts) * 3, random(9, experts) / 10
        ids, weights = kernels.router_topk(logits, bias, top_k)
        expected_ids, expected = references.router_topk(logits, bias, top_k)
        assert np.array_equal(ids, expected_ids), experts
        assert np.array_equal(bits(weights), bits(expected)), experts


@instances_of("ecap_redirect")
def test_ecap_redirect(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    generator = np.random.default_rng(0)
    for tokens in (1, 2, 8):
        ids = np.stack([generator.permutation(40)[:8] for _ in range(tokens)]).astype(np.int32)
        weights = generator.random((tokens, 8), dtype=np.float32)
        for cap in (1, 8, 13, 64):
            new_ids, new_weights = kernels.ecap_redirect(ids, weights, cap)
            expected_ids, expected = references.ecap_redirect(ids, weights, cap)
            assert np.array_equal(new_ids, expected_ids), (tokens, cap)
            assert np.array_equal(bits(new_weights), bits(expected)), (tokens, cap)


def routes(tokens: int) -> tuple[NDArray[np.int32], Floats, NDArray[np.int32]]:
    """Ids and weights [tokens, 8], and the slots of 40 experts, half of them resident."""
    generator = np.random.default_rng(tokens)
    ids = np.stack([generator.permutation(40)[:8] for _ in range(tokens)]).astype(np.int32)
    ids[generator.random(ids.shape) < 0.1] = -1
    slots = np.full(40, -1, np.int32)
    slots[generator.permutation(40)[:20]] = range(20)
    return ids, generator.random(ids.shape, dtype=np.float32), slots


@instances_of("tail_skip")
def test_tail_skip(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for tokens in (1, 3, 8):
        for rank in (0, 2, 7):
            ids, weights, slots = routes(tokens)
            new_ids, new_weights = kernels.tail_skip(ids, weights, slots, rank)
            expected_ids, expected = references.tail_skip(ids, weights, slots, rank)
            assert np.array_equal(new_ids, expected_ids), (tokens, rank)
            assert np.array_equal(bits(new_weights), bits(expected)), (tokens, rank)


@instances_of("resident_plan")
def test_resident_plan(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for tokens in (1, 3, 8):
        plan = kernels.resident_plan(*routes(tokens))[0]
        expected = references.resident_plan(*routes(tokens))
        assert plan["group"][: plan["groups"]].tolist() == expected.groups
        assert plan["entries"][: plan["device_entries"]].tolist() == expected.entries
        assert plan["cpu"][: plan["cpu_entries"]].tolist() == expected.cpu
        assert plan["owner"][: tokens * 8].tolist() == expected.owner


@instances_of("publish")
def test_publish(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for tokens in (1, 8):
        ids, weights, _ = routes(tokens)
        x = random(tokens, tokens, 70)
        assert kernels.publish(x, ids, weights) == references.publish(x, ids, weights)


@instances_of("flag_wait")
def test_flag_wait(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for word in (0, 4, 5, 6, 0xFFFFFFFF):
        assert kernels.flag_wait(word, 5, 17) == references.flag_wait(word, 5, 17)


@instances_of("time_stamp")
def test_time_stamp(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    times, phases = zip(*(kernels.time_stamp(phase) for phase in range(5)), strict=True)
    assert list(times) == sorted(times)
    assert times[0] > 0
    assert list(phases) == references.time_stamp(range(5))


@instances_of("rows_copy")
def test_rows_copy(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    _, weights, _ = routes(5)
    owner = np.random.default_rng(1).integers(0, 3, 40).astype(np.uint8)
    rows, to = random(10, 40, 1030), random(11, 40, 1030)
    copied = kernels.rows_copy(rows, owner, weights, 0.5, to)
    assert np.array_equal(bits(copied), bits(references.rows_copy(rows, owner, weights, 0.5, to)))


@instances_of("late_add")
def test_late_add(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    _, weights, _ = routes(5)
    owner = np.random.default_rng(1).integers(0, 3, 40).astype(np.uint8)
    rows, residual = random(12, 40, 1030), random(13, 5, 1030)
    added = kernels.late_add(rows, owner, weights, 0.5, residual)
    assert np.array_equal(bits(added), bits(references.late_add(rows, owner, weights, 0.5, residual)))


@instances_of("expert_gate_up")
def test_expert_gate_up(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for format_name in kernels.formats:
        columns = widths(format_name)[-1]
        gate, up = (unit_weights(kernels, format_name, 32, columns, seed) for seed in (1, 2))
        for tokens in (1, 5, 8):
            x = random(tokens, tokens, columns)
            middle, quantised = kernels.expert_gate_up(gate, up, x)
            expected = references.expert_gate_up(gate, up, x)
            assert np.array_equal(bits(middle), bits(expected[0])), (format_name, tokens)
            assert np.array_equal(quantised, expected[1]), (format_name, tokens)


@instances_of("expert_down")
def test_expert_down(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for format_name in kernels.formats:
        columns = widths(format_name)[-1]
        down = unit_weights(kernels, format_name, 70, columns, seed=3)
        for tokens in (1, 3, 8):
            middle = random(tokens, tokens, columns)
            rows = kernels.expert_down(down, middle)
            assert np.array_equal(bits(rows), bits(references.expert_down(down, middle))), (format_name, tokens)


@instances_of("norm_rows")
def test_norm_rows(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for rows, columns in ((1, 32), (3, 2048), (2, 5120)):
        x, weight = random(columns, rows, columns) * 3, random(7, columns)
        found, expected = kernels.norm_rows(x, weight, 1e-6), references.norm_rows(x, weight, 1e-6)
        assert np.array_equal(bits(found[0]), bits(expected[0])), columns
        assert found[1] == expected[1], columns


@instances_of("silu_rows")
def test_silu_rows(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for rows, columns in ((1, 32), (5, 768), (2, 2080)):
        gate, up = random(columns, rows, columns) * 9, random(7, rows, columns)
        found, expected = kernels.silu_rows(gate, up), references.silu_rows(gate, up)
        assert np.array_equal(bits(found[0]), bits(expected[0])), columns
        assert found[1] == expected[1], columns


@instances_of("add_rows")
def test_add_rows(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for count in (1, 33, 4100):
        x, out = random(1, count), random(2, count)
        assert np.array_equal(kernels.add_rows(x, out), references.add_rows(x, out)), count


@instances_of("argmax_rows")
def test_argmax_rows(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for rows, columns in ((1, 1), (3, 70), (2, 40_000)):
        x = np.round(random(columns, rows, columns), 1)
        x[0, : columns // 2] = np.nan
        assert kernels.argmax_rows(x).tolist() == references.argmax_rows(x).tolist(), columns


@instances_of("embed_rows")
def test_embed_rows(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for format_name in kernels.formats:
        table, ids = kernels.random(format_name, 9, widths(format_name)[-1]), np.array([8, 0, 3, 3], np.int32)
        assert np.array_equal(kernels.embed_rows(table, ids), references.embed_rows(table, ids)), format_name


@instances_of("append_heads")
def test_append_heads(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    tokens, capacity, start = 5, 40, 30
    for cache_type in layer_reference.CACHE_TYPES:
        for heads, kv_heads, dim, rope_dim in ((8, 2, 32, 16), (4, 4, 128, 128)):
            turns = np.arange(capacity)[:, None] * 1e4 ** -(np.arange(rope_dim // 2) / rope_dim * 2)
            angles = np.stack((np.cos(turns), np.sin(turns)), 1).astype(np.float32)
            given = (random(1, tokens, heads, dim), random(2, tokens, kv_heads, dim), random(3, tokens, kv_heads, dim))
            norms, empty = (random(4, dim), random(5, dim)), np.full((2, kv_heads, capacity, dim), -7, np.float32)
            arguments = (given, norms, 1e-6, 0.125, angles, layer_reference.stored(empty, cache_type), start)
            queries, cache = kernels.append_heads(*arguments)
            expected_queries, expected = references.append_heads(*arguments)
            assert np.array_equal(bits(queries), bits(expected_queries)), (cache_type, dim)
            assert np.array_equal(cache, expected), (cache_type, dim)


@instances_of("attend_window")
def test_attend_window(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    for cache_type in layer_reference.CACHE_TYPES:
        for heads, kv_heads, dim in ((4, 4, 32), (24, 2, 64), (8, 1, 128)):
            cache = layer_reference.stored(random(heads, 2, kv_heads, 900, dim), cache_type)
            for tokens, start in ((1, 0), (5, 254), (8, 800)):
                queries = random(tokens, tokens, heads, dim) / np.float32(np.sqrt(dim))
                expected = references.attend_window(queries, cache, start)
                error = np.abs(kernels.attend_window(queries, cache, start)[0] - expected)
                largest = np.abs(layer_reference.loaded(cache)[1]).max()
                assert (error <= bound(specs, name) * largest).all(), (cache_type, heads, tokens)


@instances_of("attend_join")
def test_attend_join(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    cache, queries = random(1, 2, 2, 9000, 32), random(2, 3, 4, 32)
    out, q = kernels.attend_window(queries, cache, 8990)
    error = np.abs(out - references.attend_join(queries, cache, 8990))
    assert (error <= bound(specs, name) * np.abs(cache[1]).max()).all()
    assert q == layer_reference.quantised(out.reshape(3, -1))


@instances_of("window_linear")
def test_window_linear(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for format_name in kernels.formats:
        columns = widths(format_name)[-1]
        weights = unit_weights(kernels, format_name, 37, columns, seed=4)
        for tokens in (1, 3, 8):
            x, before = random(tokens, tokens, columns), random(tokens, tokens, 37)
            out = kernels.window_linear(weights, x, 0.3, before)
            expected = references.window_linear(weights, x, 0.3, before)
            assert np.array_equal(bits(out), bits(expected)), (format_name, tokens)


@instances_of("quantize_rows")
def test_quantize_rows(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for rows, columns in ((1, 32), (5, 1088)):
        x = random(rows, rows, columns)
        assert np.array_equal(kernels.quantize_rows(x), references.quantize_rows(x)), columns


@instances_of("to_floats")
def test_to_floats(kernels: CalledKernels, specs: SpecSet, name: KernelName) -> None:
    assert bound(specs, name) == 0
    for format_name in kernels.formats:
        weights = unit_weights(kernels, format_name, 37, widths(format_name)[-1], seed=5)
        for dtype in ("f32", "bf16", "f16"):
            found, expected = kernels.to_floats(weights, dtype, 0.3), references.to_floats(weights, dtype, 0.3)
            assert found.tobytes() == expected.tobytes(), (format_name, dtype)
