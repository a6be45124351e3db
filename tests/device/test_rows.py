"""Rows of the CPU on their way into the residual: copied, split by weight, added late; all in the bits of one sum."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from support import device_reference as reference
from support.device import Machine, Refused
from support.device_reference import CPU, DEVICE

Floats = NDArray[np.float32]
Owners = NDArray[np.uint8]
ALL, AT_LEAST, BELOW = range(3)
SHAPES = [(0, 8, 16), (1, 1, 7), (1, 8, 2880), (3, 10, 33), (8, 16, 5)]


def rows_of(tokens: int, top_k: int, hidden: int) -> tuple[Floats, Floats, Floats, Owners]:
    """Rows, weights, residual and owners; some weights are 0, one row of them is not finite."""
    generator = np.random.default_rng(hidden)
    rows = generator.standard_normal((tokens * top_k, hidden), dtype=np.float32)
    weights = generator.random((tokens, top_k), dtype=np.float32)
    weights[generator.random(weights.shape) < 0.2] = 0
    rows[weights.reshape(-1) == 0] = np.nan
    owner = generator.integers(0, 3, tokens * top_k).astype(np.uint8)
    return rows, weights, generator.standard_normal((tokens, hidden), dtype=np.float32), owner


def chosen(weights: Floats, owner: Owners | None, which: int, threshold: float) -> NDArray[np.bool_]:
    heavy = weights.reshape(-1) >= np.float32(threshold)
    by_weight = {ALL: np.ones(weights.size, bool), AT_LEAST: heavy, BELOW: ~heavy}[which]
    return by_weight if owner is None else by_weight & (owner == CPU)


def same(left: Floats, right: Floats) -> bool:
    return np.array_equal(reference.bits(left), reference.bits(right))


@pytest.mark.parametrize(("tokens", "top_k", "hidden"), SHAPES)
def test_combine_has_the_bits_of_the_sum_in_order(
    machine: Machine, wave: int, tokens: int, top_k: int, hidden: int
) -> None:
    rows, weights, residual, _ = rows_of(tokens, top_k, hidden)
    done = machine.run("combine", [tokens, top_k, hidden], [rows, weights, residual], wave)[2]
    assert same(done, reference.add_rows(rows, weights, residual))


@pytest.mark.parametrize(("tokens", "top_k", "hidden"), SHAPES)
def test_late_rows_are_added_in_order(machine: Machine, wave: int, tokens: int, top_k: int, hidden: int) -> None:
    rows, weights, residual, owner = rows_of(tokens, top_k, hidden)
    for which, used in product((ALL, AT_LEAST, BELOW), (owner, None)):
        numbers = [tokens, top_k, hidden, which, 0.4]
        done = machine.run("late_add", numbers, [rows, used, weights, residual], wave)[3]
        assert same(done, reference.add_rows(rows, weights, residual, chosen(weights, used, which, 0.4)))


@pytest.mark.parametrize(("tokens", "top_k", "hidden"), SHAPES)
def test_copies_take_the_meant_rows_and_zero_others_only_when_asked(
    machine: Machine, wave: int, tokens: int, top_k: int, hidden: int
) -> None:
    rows, weights, _, owner = rows_of(tokens, top_k, hidden)
    before = np.full_like(rows, 7)
    for which, used, zeros in product((ALL, AT_LEAST, BELOW), (owner, None), (False, True) if tokens < 8 else (True,)):
        numbers = [len(rows), hidden, which, 0.4, zeros]
        done = machine.run("rows_copy", numbers, [rows, used, weights, before], wave)[3]
        take = chosen(weights, used, which, 0.4)
        others = np.zeros_like(take) if not zeros else ~take if used is None else ~take & (used != DEVICE)
        expected = np.where(take[:, None], rows, np.where(others[:, None], np.float32(0), before))
        assert same(done, expected)


def test_the_two_parts_of_a_split_are_every_row_once(machine: Machine, wave: int) -> None:
    rows, weights, _, _ = rows_of(2, 8, 16)
    weights[0, :3] = (0.4, np.nan, np.nextafter(np.float32(0.4), np.float32(0)))
    taken = [
        machine.run("rows_copy", [16, 16, which, 0.4, False], [rows, None, weights, np.full_like(rows, 7)], wave)[3]
        for which in (AT_LEAST, BELOW)
    ]
    copied = [~(part == 7).all(axis=1) for part in taken]
    assert (copied[0] ^ copied[1]).all()
    assert copied[0][:3].tolist() == [True, False, False]


def test_heavy_rows_in_place_and_light_rows_later_are_the_same_sums(machine: Machine, wave: int) -> None:
    """Weights fall with the pick, so the light rows are the last ones of every token: even the order is the same."""
    rows, weights, residual, _ = rows_of(5, 8, 100)
    weights = np.ascontiguousarray(np.sort(weights, axis=1)[:, ::-1])
    rows[~np.isfinite(rows)] = 0
    numbers = [len(rows), 100, AT_LEAST, 0.4, True]
    heavy = machine.run("rows_copy", numbers, [rows, None, weights, np.full_like(rows, 7)], wave)[3]
    early = machine.run("combine", [5, 8, 100], [heavy, weights, residual], wave)[2]
    late = machine.run("late_add", [5, 8, 100, BELOW, 0.4], [rows, None, weights, early], wave)[3]
    assert same(late, reference.add_rows(rows, weights, residual))
    assert not same(early, late)


@pytest.mark.parametrize("numbers", [[2**31 - 1, 2, 1], [2**16, 2**15, 1]])
def test_more_entries_than_can_be_numbered_are_refused(machine: Machine, wave: int, numbers: list[float]) -> None:
    some = np.zeros(1, np.float32)
    with pytest.raises(Refused, match="combine: too many entries"):
        machine.run("combine", numbers, [some, some, some], wave)


def test_a_choice_by_weight_needs_weights(machine: Machine, wave: int) -> None:
    rows = np.zeros((4, 8), np.float32)
    with pytest.raises(Refused, match="a choice by weight needs weights"):
        machine.run("rows_copy", [4, 8, BELOW, 0.4, False], [rows, None, None, rows], wave)
