"""Grouped products of resident experts against numpy with decoded weights, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from strata_runtime.formats import FormatInfo
from support import device_reference as reference
from support.blocks import names, random_blocks
from support.device import Machine, Refused, generated_formats
from support.device_reference import PLAN

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
SLOTS = 3
EMULATED = ("f32", "q4_k", "q6_k")


@dataclass(frozen=True)
class Resident:
    """Experts in slots with some bytes between them: gate, up and down of each decoded."""

    format: FormatInfo
    memory: NDArray[np.uint8]
    stride: int
    offsets: tuple[int, int, int]
    decoded: list[tuple[Floats, Floats, Floats]]


def make_resident(name: str, hidden: int, width: int) -> Resident:
    info = next(info for info in generated_formats() if info.name == name)
    shapes = ((width, hidden), (width, hidden), (hidden, width))
    parts = [
        [random_blocks(info, *shape, seed=10 * slot + part) for part, shape in enumerate(shapes)]
        for slot in range(SLOTS)
    ]
    sizes = [blocks.nbytes for blocks in parts[0]]
    offsets = (0, sizes[0], sizes[0] + sizes[1])
    memory = [b"".join(blocks.tobytes() for blocks in slot) for slot in parts]
    gap = bytes(64)
    decoded = [tuple(info.decode(blocks).astype(np.float32) for blocks in slot) for slot in parts]
    return Resident(
        info,
        np.frombuffer(gap.join(memory), np.uint8),
        sum(sizes) + len(gap),
        offsets,
        decoded,  # type: ignore[arg-type]
    )


def run(
    machine: Machine, resident: Resident, ids: Ids, x: Floats, wave: int, scales: Floats | None = None
) -> tuple[Floats, Floats]:
    """Middle and rows of all entries, 9 where nothing was written; experts 0.. have the slots in reverse."""
    tokens, top_k = ids.shape
    hidden, width = resident.decoded[0][2].shape
    slots = np.array([SLOTS - 1 - expert if expert < SLOTS else -1 for expert in range(8)], np.int32)
    blank = np.zeros(1, PLAN)
    given = [ids, None, slots, blank, np.zeros(1, np.uint32)]
    plan = machine.run("resident_plan", [tokens, top_k, 8, SLOTS, 0], given, 1)[3]
    number = generated_formats().index(resident.format)
    sizes = [tokens, top_k, hidden, width]
    gate_scale, up_scale, down_scale = (None, None, None) if scales is None else scales
    middle = machine.run(
        "expert_gate_up",
        [number, resident.stride, *resident.offsets[:2], *sizes],
        [plan, resident.memory, gate_scale, up_scale, x, np.full((tokens * top_k, width), 9, np.float32)],
        wave,
    )[5]
    rows = machine.run(
        "expert_down",
        [number, resident.stride, resident.offsets[2], *sizes],
        [plan, resident.memory, down_scale, middle, np.full((tokens * top_k, hidden), 9, np.float32)],
        wave,
    )[4]
    return middle, rows


def check(resident: Resident, ids: Ids, x: Floats, middle: Floats, rows: Floats, scales: Floats | None = None) -> None:
    for entry, expert in enumerate(ids.reshape(-1).tolist()):
        if not 0 <= expert < SLOTS:
            assert (middle[entry] == 9).all() and (rows[entry] == 9).all()
            continue
        slot = SLOTS - 1 - expert
        gate, up, down = resident.decoded[slot]
        gate_scale, up_scale, down_scale = (1, 1, 1) if scales is None else scales[:, slot]
        expected = reference.gate_up(gate, up, x[entry // ids.shape[1]], gate_scale, up_scale)
        assert np.array_equal(reference.bits(middle[entry]), reference.bits(expected))
        row = reference.dots(down, expected) * np.float32(down_scale)
        assert np.array_equal(reference.bits(rows[entry]), reference.bits(row))


def inputs(tokens: int, hidden: int) -> Floats:
    return np.random.default_rng(tokens).standard_normal((tokens, hidden), dtype=np.float32)


@pytest.mark.parametrize("name", names())
def test_every_format(machine: Machine, name: str) -> None:
    resident = make_resident(name, 256, 256)
    ids = np.array([[0, 1, -1], [5, 0, 2]], np.int32)
    x = inputs(2, 256)
    for wave in (1, 32, 64) if name in EMULATED else (1,):
        check(resident, ids, x, *run(machine, resident, ids, x, wave))


@pytest.mark.parametrize(("hidden", "width"), [(67, 33), (128, 1), (640, 96), (1, 65)])
def test_odd_sizes(machine: Machine, wave: int, hidden: int, width: int) -> None:
    resident = make_resident("f32", hidden, width)
    ids = np.array([[2, 0]], np.int32)
    x = inputs(1, hidden)
    check(resident, ids, x, *run(machine, resident, ids, x, wave))


@pytest.mark.parametrize("tokens", range(1, 9))
def test_every_number_of_tokens_on_one_expert_in_one_pass(machine: Machine, wave: int, tokens: int) -> None:
    resident = make_resident("f32", 64, 32)
    ids = np.ones((tokens, 1), np.int32)
    x = inputs(tokens, 64)
    check(resident, ids, x, *run(machine, resident, ids, x, wave))


def test_a_group_larger_than_a_window_takes_several_passes(machine: Machine, wave: int) -> None:
    resident = make_resident("f32", 32, 32)
    ids = np.ones((4, 5), np.int32)
    x = inputs(4, 32)
    check(resident, ids, x, *run(machine, resident, ids, x, wave))


def test_scales_multiply_products(machine: Machine, wave: int) -> None:
    resident = make_resident("f32", 64, 32)
    scales = np.array([[0.5, 2, 3], [1.5, 0.1, 4], [7, 0.3, 0.2]], np.float32)
    ids = np.array([[2, 1]], np.int32)
    x = inputs(1, 64)
    check(resident, ids, x, *run(machine, resident, ids, x, wave, scales), scales)


def test_no_tokens_are_no_work(machine: Machine, wave: int) -> None:
    resident = make_resident("f32", 64, 32)
    middle, rows = run(machine, resident, np.zeros((0, 2), np.int32), inputs(0, 64), wave)
    assert middle.shape == (0, 32) and rows.shape == (0, 64)


def test_widths_that_blocks_do_not_divide_are_refused(machine: Machine) -> None:
    number = generated_formats().index(next(info for info in generated_formats() if info.name == "q8_0"))
    some = np.zeros(64, np.float32)
    with pytest.raises(Refused, match="blocks do not divide hidden"):
        machine.run(
            "expert_gate_up", [number, 0, 0, 0, 1, 1, 33, 32], [np.zeros(1, PLAN), some, None, None, some, some], 1
        )
