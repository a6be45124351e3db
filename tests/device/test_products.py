"""Products with the weights of device matrices against numpy, bit by bit: a window, resident experts, decoding."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from strata_runtime.formats import FormatInfo
from support import device_reference as reference
from support.blocks import block_of, names
from support.device import Machine, Refused, generated_formats
from support.device_reference import PLAN
from support.interleaving import device_matrix
from support.random_blocks import random_blocks

Array = NDArray[np.uint8]
Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
SLOTS = 3
EMULATED = ("f32", "q4_k", "q6_k")
WIDE = ("f32", "iq4_xs", "q4_k", "q5_0", "q6_k")
"""Formats that the program has for waves of 64 lanes too."""


def info_of(name: str) -> FormatInfo:
    return next(info for info in generated_formats() if info.name == name)


def number_of(info: FormatInfo) -> int:
    return generated_formats().index(info)


def inputs(tokens: int, columns: int) -> Floats:
    return np.random.default_rng(tokens).standard_normal((tokens, columns), dtype=np.float32)


def packed(info: FormatInfo, x: Floats) -> Array | None:
    return None if info.quants is None else reference.pack(x)


def linear(
    machine: Machine,
    wave: int,
    info: FormatInfo,
    weights: list[Array],
    x: Floats,
    *,
    scales: tuple[float, ...] = (1, 1, 1),
    added: Floats | None = None,
) -> list[Floats]:
    numbers: list[float] = [number_of(info), len(x), x.shape[1], added is not None]
    arrays: list[NDArray[np.float32] | Array | None] = [x, packed(info, x)]
    for blocks, scale in zip(weights, scales, strict=False):
        numbers += [len(blocks), scale]
        blank = np.full((len(x), len(blocks)), 9, np.float32)
        arrays += [device_matrix(info, blocks), blank if added is None else added]
    return machine.run("window_linear", numbers, arrays, wave)[3::2]


def same(left: Floats, right: Floats) -> bool:
    return np.array_equal(reference.bits(left), reference.bits(right))


@pytest.mark.parametrize("name", names())
def test_every_format_at_every_number_of_tokens(machine: Machine, name: str) -> None:
    info = info_of(name)
    for rows, columns, tokens in ((16, 256, 1), (37, 512, 4), (16, 256, 5), (48, 256, 8)):
        blocks, x = random_blocks(info, rows, columns, seed=tokens), inputs(tokens, columns)
        expected = reference.products(info, blocks, x)
        for wave in (1, 32, 64) if name in WIDE else (1, 32):
            (out,) = linear(machine, wave, info, [blocks], x)
            assert same(out, expected), (rows, columns, tokens, wave)


@pytest.mark.parametrize("columns", [32, 96, 320, 1056, 2304])
def test_columns_are_shared_out_to_slices(machine: Machine, wave: int, columns: int) -> None:
    for name in ("f32", "q5_0"):
        info = info_of(name)
        blocks, x = random_blocks(info, 20, columns), inputs(3, columns)
        (out,) = linear(machine, wave, info, [blocks], x)
        assert same(out, reference.products(info, blocks, x)), name


@pytest.mark.parametrize("columns", [1, 33, 67, 130, 515])
def test_rows_of_floats_have_any_length(machine: Machine, wave: int, columns: int) -> None:
    info = info_of("f32")
    blocks, x = random_blocks(info, 5, columns), inputs(6, columns)
    (out,) = linear(machine, wave, info, [blocks], x)
    assert same(out, reference.products(info, blocks, x))


def test_products_are_scaled_and_added(machine: Machine, wave: int) -> None:
    info = info_of("q4_k")
    blocks, x = random_blocks(info, 16, 256), inputs(2, 256)
    before = inputs(2, 16)
    (out,) = linear(machine, wave, info, [blocks], x, scales=(0.3,), added=before)
    assert same(out, before + reference.products(info, blocks, x) * np.float32(0.3))


def test_matrices_share_a_launch(machine: Machine, wave: int) -> None:
    for name in ("f32", "q6_k"):
        info = info_of(name)
        weights = [random_blocks(info, rows, 512, seed=rows) for rows in (32, 16, 23)]
        x = inputs(2, 512)
        for out, blocks in zip(linear(machine, wave, info, weights, x), weights, strict=True):
            assert same(out, reference.products(info, blocks, x)), name


def test_a_token_has_the_same_bits_in_any_company(machine: Machine, wave: int) -> None:
    info = info_of("q6_k")
    blocks, x = random_blocks(info, 16, 256), inputs(8, 256)
    (together,) = linear(machine, wave, info, [blocks], x)
    for tokens in (1, 3, 5):
        assert same(linear(machine, wave, info, [blocks], x[:tokens])[0], together[:tokens])


def test_inputs_that_are_no_numbers_spoil_their_own_token_alone(machine: Machine, wave: int) -> None:
    info = info_of("q4_k")
    blocks, x = random_blocks(info, 16, 256), inputs(3, 256)
    broken = x.copy()
    broken[1, 40] = np.nan
    q = machine.run("quantize_rows", [3, 256], [broken, np.zeros(3 * (256 + 64), np.uint8)], wave)[1]
    arrays = [None, q, device_matrix(info, blocks), np.zeros((3, 16), np.float32)]
    out = machine.run("window_linear", [number_of(info), 3, 256, 0, 16, 1], arrays, wave)[3]
    assert np.isnan(out[1]).all()
    assert same(out[[0, 2]], reference.products(info, blocks, x)[[0, 2]])


def test_nothing_is_no_work(machine: Machine, wave: int) -> None:
    info = info_of("q4_k")
    (out,) = linear(machine, wave, info, [random_blocks(info, 16, 256)], inputs(0, 256))
    assert out.shape == (0, 16)


def test_what_does_not_fit_is_refused(machine: Machine) -> None:
    info = info_of("q8_0")
    some = np.zeros(1024, np.float32)
    with pytest.raises(Refused, match="blocks of the format do not divide the columns"):
        machine.run("window_linear", [number_of(info), 1, 33, 0, 16, 1], [None, some, some, some], 1)
    with pytest.raises(Refused, match="a null address of quantised inputs"):
        machine.run("window_linear", [number_of(info), 1, 32, 0, 16, 1], [some, None, some, some], 1)
    with pytest.raises(Refused, match=r"window\.max_tokens"):
        machine.run("window_linear", [number_of(info), 9, 32, 0, 16, 1], [None, some, some, some], 1)


@pytest.mark.parametrize("columns", [32, 96, 2080])
def test_rows_are_quantised_by_the_rule(machine: Machine, wave: int, columns: int) -> None:
    x = inputs(3, columns)
    x[1, :32] = 0
    x[2, 5] = 2.0**-101
    q = machine.run("quantize_rows", [3, columns], [x, np.zeros(3 * (columns + columns // 4), np.uint8)], wave)[1]
    assert np.array_equal(q, reference.pack(x))


@pytest.mark.parametrize("name", names())
def test_matrices_become_floats(machine: Machine, name: str) -> None:
    info = info_of(name)
    columns = 2 * max(block_of(name), 256)
    blocks = random_blocks(info, 21, columns)
    expected = info.decode(blocks) * np.float32(0.7)
    halves = expected.astype(np.float16)
    cut = expected.view(np.uint32)
    brain = ((cut + 0x7FFF + (cut >> 16 & 1)) >> 16).astype(np.uint16)
    for number, values in enumerate((expected, brain, halves)):
        for wave in (1, 32, 64) if name in EMULATED else (1,):
            out = np.zeros((21, columns), values.dtype)
            numbers = [number_of(info), 21, columns, number, 0.7]
            done = machine.run("to_floats", numbers, [device_matrix(info, blocks), out], wave)[1]
            assert done.tobytes() == values.tobytes(), (number, wave)


@dataclass(frozen=True)
class Resident:
    """Experts in slots with some bytes between them: stored rows of gate, up and down of each."""

    format: FormatInfo
    memory: Array
    stride: int
    offsets: tuple[int, int, int]
    stored: list[tuple[Array, Array, Array]]


def make_resident(name: str, hidden: int, width: int) -> Resident:
    info = info_of(name)
    shapes = ((width, hidden), (width, hidden), (hidden, width))
    stored = [
        tuple(random_blocks(info, *shape, seed=10 * slot + part) for part, shape in enumerate(shapes))
        for slot in range(SLOTS)
    ]
    parts = [[device_matrix(info, blocks) for blocks in slot] for slot in stored]
    sizes = [part.nbytes for part in parts[0]]
    gap = bytes(64)
    memory = gap.join(b"".join(part.tobytes() for part in slot) for slot in parts)
    offsets = (0, sizes[0], sizes[0] + sizes[1])
    return Resident(info, np.frombuffer(memory, np.uint8), sum(sizes) + len(gap), offsets, stored)  # type: ignore[arg-type]


def run(
    machine: Machine, resident: Resident, ids: Ids, x: Floats, width: int, wave: int, scales: Floats | None = None
) -> tuple[Floats, Floats]:
    """Middle and rows of all entries, 9 where nothing was written; experts 0.. have the slots in reverse.

    What was quantised of the middle is checked on the way.
    """
    tokens, top_k = ids.shape
    hidden, entries = x.shape[1], ids.size
    slots = np.array([SLOTS - 1 - expert if expert < SLOTS else -1 for expert in range(8)], np.int32)
    blank = np.zeros(1, PLAN)
    given = [ids, None, slots, blank, np.zeros(1, np.uint32), None]
    plan = machine.run("resident_plan", [tokens, top_k, 8, SLOTS, 0], given, 1)[3]
    number, is_quantised = number_of(resident.format), resident.format.quants is not None
    sizes = [tokens, top_k, hidden, width]
    gate_scale, up_scale, down_scale = (None, None, None) if scales is None else scales
    outputs = [
        np.full((entries, width), 9, np.float32),
        np.zeros(entries * (width + width // 4), np.uint8) if is_quantised else None,
    ]
    middle, middle_q = machine.run(
        "expert_gate_up",
        [number, resident.stride, *resident.offsets[:2], *sizes],
        [plan, resident.memory, gate_scale, up_scale, x, packed(resident.format, x), *outputs],
        wave,
    )[6:]
    if is_quantised:
        mine = np.isin(ids.reshape(-1), range(SLOTS))
        values = middle_q[: entries * width].view(np.int8).reshape(entries, width)
        scale, total = middle_q[entries * width :].view(np.uint32).reshape(2, entries, width // 32)
        expected = reference.quantize(middle)
        assert np.array_equal(values[mine], expected[0][mine])
        assert np.array_equal(scale[mine], expected[1].view(np.uint32)[mine])
        assert np.array_equal(total[mine], expected[2].view(np.uint32)[mine])
    rows = machine.run(
        "expert_down",
        [number, resident.stride, resident.offsets[2], *sizes],
        [
            plan,
            resident.memory,
            down_scale,
            middle,
            middle_q if is_quantised else None,
            np.full((entries, hidden), 9, np.float32),
        ],
        wave,
    )[5]
    return middle, rows


def check(resident: Resident, ids: Ids, x: Floats, middle: Floats, rows: Floats, scales: Floats | None = None) -> None:
    for entry, expert in enumerate(ids.reshape(-1).tolist()):
        if not 0 <= expert < SLOTS:
            assert (middle[entry] == 9).all() and (rows[entry] == 9).all()
            continue
        slot = SLOTS - 1 - expert
        token = entry // ids.shape[1]
        gate, up = (
            reference.products(resident.format, part, x[token : token + 1]) for part in resident.stored[slot][:2]
        )
        gate_scale, up_scale, down_scale = (1, 1, 1) if scales is None else scales[:, slot]
        expected = reference.gate_up(gate, up, gate_scale, up_scale)
        assert same(middle[entry], expected[0])
        row = reference.products(resident.format, resident.stored[slot][2], expected) * np.float32(down_scale)
        assert same(rows[entry], row[0])


@pytest.mark.parametrize("name", names())
def test_experts_of_every_format(machine: Machine, name: str) -> None:
    resident = make_resident(name, 256, 256)
    ids = np.array([[0, 1, -1], [5, 0, 2]], np.int32)
    x = inputs(2, 256)
    for wave in (1, 32, 64) if name in EMULATED else (1,):
        check(resident, ids, x, *run(machine, resident, ids, x, 256, wave))


@pytest.mark.parametrize(("hidden", "width"), [(67, 33), (128, 1), (640, 96), (1, 65)])
def test_experts_of_floats_have_any_size(machine: Machine, wave: int, hidden: int, width: int) -> None:
    resident = make_resident("f32", hidden, width)
    ids = np.array([[2, 0]], np.int32)
    x = inputs(1, hidden)
    check(resident, ids, x, *run(machine, resident, ids, x, width, wave))


def test_experts_whose_rows_fill_no_tile(machine: Machine) -> None:
    resident = make_resident("q8_0", 96, 32)
    ids = np.array([[2, 0]], np.int32)
    x = inputs(1, 96)
    check(resident, ids, x, *run(machine, resident, ids, x, 32, 1))


@pytest.mark.parametrize("tokens", range(1, 9))
def test_every_number_of_tokens_on_one_expert_in_one_pass(machine: Machine, wave: int, tokens: int) -> None:
    resident = make_resident("f32", 64, 32)
    ids = np.ones((tokens, 1), np.int32)
    x = inputs(tokens, 64)
    check(resident, ids, x, *run(machine, resident, ids, x, 32, wave))


def test_a_group_larger_than_a_window_takes_several_passes(machine: Machine, wave: int) -> None:
    for name, size in (("f32", 32), ("q4_k", 256)):
        resident = make_resident(name, size, size)
        ids = np.ones((4, 5), np.int32)
        x = inputs(4, size)
        check(resident, ids, x, *run(machine, resident, ids, x, size, wave))


def test_scales_multiply_products(machine: Machine, wave: int) -> None:
    resident = make_resident("f32", 64, 32)
    scales = np.array([[0.5, 2, 3], [1.5, 0.1, 4], [7, 0.3, 0.2]], np.float32)
    ids = np.array([[2, 1]], np.int32)
    x = inputs(1, 64)
    check(resident, ids, x, *run(machine, resident, ids, x, 32, wave, scales), scales)


def test_no_tokens_are_no_experts(machine: Machine, wave: int) -> None:
    resident = make_resident("f32", 64, 32)
    middle, rows = run(machine, resident, np.zeros((0, 2), np.int32), inputs(0, 64), 32, wave)
    assert middle.shape == (0, 32) and rows.shape == (0, 64)
