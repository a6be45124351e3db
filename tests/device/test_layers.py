"""Kernels between the products of a layer against numpy: bit by bit at every width of waves."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from support import layer_reference as reference
from support.device import Machine, Refused, generated_formats
from support.device_reference import bits
from support.random_blocks import random_blocks

Floats = NDArray[np.float32]


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def same(left: Floats, right: Floats) -> bool:
    return np.array_equal(bits(left), bits(right))


def room(x: Floats) -> NDArray[np.uint8] | None:
    """Memory for the quantised rows; None where their columns are no whole blocks."""
    return np.full(x.size // 32 * 40, 0xA5, np.uint8) if x.shape[1] % 32 == 0 else None


@pytest.mark.parametrize(("rows", "columns"), [(0, 32), (1, 1), (3, 33), (2, 1022), (2, 2048), (1, 5120), (1, 8224)])
def test_rows_are_normed_and_quantised(machine: Machine, wave: int, rows: int, columns: int) -> None:
    x, weight = random(columns, rows, columns) * np.float32(3), random(1, columns)
    _, _, out, q = machine.run("norm_rows", [rows, columns, 1e-6], [x, weight, np.full_like(x, 7), room(x)], wave)
    assert same(out, reference.rms_norm(x, weight, 1e-6))
    if columns % 32 == 0:
        assert q.tobytes() == reference.quantised(out)


def test_a_norm_agrees_with_float64() -> None:
    x, weight = random(0, 3, 2048), random(1, 2048)
    wide = x.astype(np.float64)
    expected = wide / np.sqrt(np.square(wide).mean(1, keepdims=True) + 1e-6) * weight
    np.testing.assert_allclose(reference.rms_norm(x, weight, 1e-6), expected, rtol=1e-6)


def test_quantised_rows_round_to_nearest_and_say_what_is_no_number(machine: Machine, wave: int) -> None:
    x = random(3, 8, 64) * np.float32(10.0) ** np.arange(-8, 0, dtype=np.float32)[:, None]
    x[0], x[1], x[2] = 0, 1e-38, np.tile(np.arange(32) - 15.5, 2)  # halves are rounded to even
    x[3, 40], x[4, 3], x[5, :5] = np.inf, np.nan, 3e38
    given = [np.full_like(x, 40), x, x, room(x)]  # silu(40) is 40
    out, q = machine.run("silu_rows", list(x.shape), given, wave)[2:]
    assert same(out, reference.silu_multiply(given[0], x))  # type: ignore[arg-type]
    assert q.tobytes() == reference.quantised(out)


@pytest.mark.parametrize(("rows", "columns"), [(0, 32), (1, 5), (2, 768), (3, 1056), (1, 2050)])
def test_gates_are_multiplied(machine: Machine, wave: int, rows: int, columns: int) -> None:
    gate, up = random(columns, rows, columns) * np.float32(20), random(1, rows, columns)
    out, q = machine.run("silu_rows", [rows, columns], [gate, up, np.full_like(gate, 7), room(gate)], wave)[2:]
    assert same(out, reference.silu_multiply(gate, up))
    if columns % 32 == 0:
        assert q.tobytes() == reference.quantised(out)


@pytest.mark.parametrize("kernel", ["norm_rows", "silu_rows"])
def test_rows_that_blocks_do_not_divide_are_not_quantised(machine: Machine, wave: int, kernel: str) -> None:
    x = random(0, 1, 33)
    with pytest.raises(Refused, match=f"{kernel}: blocks of 32 do not divide the columns"):
        machine.run(kernel, [1, 33, 1e-6], [x, x, x, np.zeros(80, np.uint8)], wave)


@pytest.mark.parametrize("count", [0, 1, 1023, 4100])
def test_vectors_are_added(machine: Machine, wave: int, count: int) -> None:
    x, out = random(0, count), random(1, count)
    assert same(machine.run("add_rows", [count], [x, out], wave)[1], out + x)


@pytest.mark.parametrize("columns", [1, 33, 5000])
def test_the_largest_value_is_found_and_of_equal_ones_the_first(machine: Machine, wave: int, columns: int) -> None:
    x = np.round(random(columns, 7, columns), 1)
    x[1], x[2], x[3] = np.nan, -np.inf, -0.0
    x[3, columns // 2 :] = 0.0
    x[4, : columns // 2] = np.nan
    x[5, columns // 2] = np.inf
    x[6] = np.where(np.arange(columns) % 2, -np.inf, np.nan)
    found = machine.run("argmax_rows", [7, columns], [x, np.full(7, -7, np.int32)], wave)[1]
    assert found.tolist() == reference.argmax(x).tolist()


@pytest.mark.parametrize("name", [info.name for info in generated_formats()])
def test_rows_of_a_table_are_what_its_format_decodes_to(machine: Machine, wave: int, name: str) -> None:
    number, info = next(pair for pair in enumerate(generated_formats()) if pair[1].name == name)
    columns = {1: 70, 32: 544, 256: 768}[info.block_elements]
    table, ids = random_blocks(info, 9, columns, seed=1), np.array([8, 0, -1, 3, 3], np.int32)
    given = [table, ids, np.full((5, columns), 7, np.float32)]
    out = machine.run("embed_rows", [number, 5, columns], given, wave)[2]
    expected = info.decode(table).astype(np.float32)[ids]
    expected[2] = 0
    assert np.array_equal(out, expected)


@pytest.mark.parametrize("cache_type", reference.CACHE_TYPES)
@pytest.mark.parametrize(("heads", "kv_heads", "dim", "rope_dim"), [(8, 2, 32, 16), (6, 3, 20, 14), (4, 1, 128, 128)])
def test_heads_are_normed_turned_and_appended(
    machine: Machine, wave: int, cache_type: str, heads: int, kv_heads: int, dim: int, rope_dim: int
) -> None:
    tokens, capacity, start = 3, 9, 5
    turns = np.arange(capacity)[:, None] * 1e4 ** -(np.arange(rope_dim // 2) / rope_dim * 2)
    angles = np.stack((np.cos(turns), np.sin(turns)), 1).astype(np.float32)
    queries, keys, values = (random(i, tokens, count, dim) for i, count in enumerate((heads, kv_heads, kv_heads)))
    empty = reference.stored(np.full((2, kv_heads, capacity, dim), -7, np.float32), cache_type)
    for norms in ((None, None), (random(4, dim), random(5, dim))):
        number = reference.CACHE_TYPES.index(cache_type)
        numbers = [tokens, heads, kv_heads, dim, capacity, number, rope_dim, 1e-6, 0.125]
        given = [*norms, angles, np.array([start], np.int32), empty, queries, keys, values]
        done = machine.run("append_heads", numbers, given, wave)
        here = angles[start : start + tokens]
        assert same(done[5], reference.turned(queries, norms[0], 1e-6, 0.125, here))
        expected = empty.copy()
        appended = np.stack((reference.turned(keys, norms[1], 1e-6, 1, here), values)).swapaxes(1, 2)
        expected[:, :, start : start + tokens] = reference.stored(appended, cache_type)
        assert np.array_equal(done[4], expected)


def test_positions_beyond_the_cache_are_left_out(machine: Machine, wave: int) -> None:
    cache, heads = np.zeros((2, 1, 4, 2), np.float32), np.ones((3, 1, 2), np.float32)
    given = [None, None, np.ones((4, 2, 1), np.float32), np.array([2], np.int32), cache, heads, heads, heads]
    done = machine.run("append_heads", [3, 1, 1, 2, 4, 0, 0, 0, 1], given, wave)[4]
    assert done[1].tolist() == [[[0, 0], [0, 0], [1, 1], [1, 1]]]
