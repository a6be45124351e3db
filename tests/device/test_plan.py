"""Plans against numpy, and every entry in exactly one place."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support import device_reference as reference
from support.device import WAVES, Machine, Refused
from support.device_reference import DOORBELL, MAX_ENTRIES, PLAN

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
RUBBISH = np.frombuffer(b"\xee" * PLAN.itemsize, PLAN)
NOT_RESIDENT, BAD_ID, BAD_SLOT = 1, 2, 3


def routes(tokens: int, top_k: int, experts: int, seed: int = 0) -> tuple[Ids, Floats, Ids]:
    """Ids of a few neighbours, so that tokens share experts; some are -1, some weights 0, half the experts resident."""
    generator = np.random.default_rng(seed)
    near = min(experts, max(top_k, 24))
    rows = [generator.permutation(near)[:top_k] + generator.integers(experts - near + 1) for _ in range(tokens)]
    ids = np.array(rows, np.int32).reshape(tokens, top_k)
    ids[generator.random(ids.shape) < 0.1] = -1
    weights = generator.random(ids.shape).astype(np.float32)
    weights[generator.random(ids.shape) < 0.1] = 0
    slots = np.full(experts, -1, np.int32)
    resident = generator.permutation(experts)[: experts // 2]
    slots[resident] = generator.permutation(len(resident))
    return ids, weights, slots


def make_plan(
    machine: Machine,
    wave: int,
    ids: Ids,
    weights: Floats | None,
    slots: Ids,
    *,
    all_resident: bool = False,
    seed: int = 0,
    most: int | None = None,
    share: int | None = None,
) -> tuple[Any, int]:
    """The plan block and the error word."""
    numbers = [*ids.shape, len(slots), len(slots) if most is None else most, all_resident]
    parts = None if share is None else np.array([share], np.int32)
    given = [ids, weights, slots, RUBBISH, np.zeros(1, np.uint32), parts]
    done = machine.run("resident_plan", numbers, given, wave, seed)
    return done[3][0], int(done[4][0])


def check(plan: Any, expected: reference.Plan) -> None:
    count = len(expected.owner)
    assert [tuple(group) for group in plan["group"][: plan["groups"]].tolist()] == expected.groups
    behind = plan["group"][plan["groups"] : plan["groups"] + plan["pcie_groups"]]
    assert [tuple(group) for group in behind.tolist()] == expected.pcie
    assert plan["entries"][: plan["device_entries"]].tolist() == expected.entries
    assert plan["cpu"][: plan["cpu_entries"]].tolist() == expected.cpu
    assert plan["owner"][:count].tolist() == expected.owner
    assert plan["device_entries"] + plan["cpu_entries"] + plan["dropped"] == count
    placed = [*expected.entries, *expected.cpu, *(entry for entry in range(count) if expected.owner[entry] == 0)]
    assert sorted(placed) == list(range(count))


def test_the_blocks_are_laid_out_as_the_tests_have_them(machine: Machine) -> None:
    (sizes,) = machine.run("layouts", [], [np.zeros(3, np.int64)], 1)
    assert sizes.tolist() == [PLAN.itemsize, DOORBELL.itemsize, MAX_ENTRIES]


@pytest.mark.parametrize(
    ("tokens", "top_k"), [*product((1, 2, 5, 8), (1, 8, 10, 16)), (3, 8), (4, 10), (6, 8), (7, 16)]
)
@pytest.mark.parametrize("experts", [48, 256, 512])
def test_every_wave_plans_as_the_reference(machine: Machine, tokens: int, top_k: int, experts: int) -> None:
    ids, weights, slots = routes(tokens, top_k, experts, seed=tokens)
    for wave, used in product(WAVES, (weights, None)):
        plan, error = make_plan(machine, wave, ids, used, slots, seed=top_k)
        assert error == 0
        check(plan, reference.resident_plan(ids, used, slots))


@pytest.mark.parametrize("share", [0, 1, 300, 512, 1023, 1024])
def test_a_share_of_the_others_is_read_from_the_host_by_the_device(machine: Machine, share: int) -> None:
    taken = 0
    for (tokens, top_k), seed in product(((1, 8), (2, 10), (5, 8), (8, 16)), range(4)):
        ids, weights, slots = routes(tokens, top_k, 48, seed)
        for wave, used in product(WAVES, (weights, None)):
            plan, error = make_plan(machine, wave, ids, used, slots, seed=seed, share=share)
            assert error == 0
            check(plan, reference.resident_plan(ids, used, slots, share))
            taken += int(plan["pcie_groups"])
            assert share < 1024 or plan["cpu_entries"] == 0
    assert (taken > 0) == (share > 1)


def test_the_device_reads_the_experts_of_most_entries_and_of_equals_the_first(machine: Machine, wave: int) -> None:
    ids = np.array([[1, 2, 3, 4], [5, 3, 6, 7], [5, 3, 8, 2]], np.int32)
    plan, _ = make_plan(machine, wave, ids, None, np.array([-1, 0, *[-1] * 7], np.int32), share=430)
    assert plan["group"][: plan["groups"]].tolist() == [(1 - 1, 0, 1, 1)]
    assert plan["group"][plan["groups"] : plan["groups"] + plan["pcie_groups"]]["expert"].tolist() == [2, 3, 5]
    assert plan["entries"][: plan["device_entries"]].tolist() == [0, 1, 11, 2, 5, 9, 4, 8]
    assert plan["cpu"][: plan["cpu_entries"]].tolist() == [3, 6, 7, 10]


def test_every_pick_is_counted_once_whatever_is_capped_skipped_shared_and_late(machine: Machine, wave: int) -> None:
    kinds = dict.fromkeys(("slot", "pcie", "waited for", "late", "dropped"), 0)
    for seed in range(24):
        generator = np.random.default_rng(seed)
        tokens, top_k = int(generator.integers(1, 9)), int(generator.integers(1, 17))
        ids, weights, slots = routes(tokens, top_k, 64, seed)
        if seed % 2:
            cap = int(generator.integers(1, tokens * top_k + 1))
            ids, weights = machine.run("ecap_redirect", [tokens, top_k, cap], [ids, weights], wave)
        if seed % 3 and top_k > 1:
            rank = int(generator.integers(1, top_k))
            ids, weights, _ = machine.run("tail_skip", [tokens, top_k, 64, rank], [ids, weights, slots], wave)
        plan, error = make_plan(machine, wave, ids, weights, slots, share=int(generator.integers(0, 1025)))
        assert error == 0
        heavy = weights.reshape(-1) >= np.float32(generator.random())
        lists = {
            "slot": grouped(plan, 0, plan["groups"], slots, ids),
            "pcie": grouped(plan, plan["groups"], plan["pcie_groups"], np.where(slots < 0, np.arange(64), -1), ids),
            "waited for": [entry for entry in plan["cpu"][: plan["cpu_entries"]] if heavy[entry]],
            "late": [entry for entry in plan["cpu"][: plan["cpu_entries"]] if not heavy[entry]],
            "dropped": np.flatnonzero((ids.reshape(-1) < 0) | (weights.reshape(-1) == 0)).tolist(),
        }
        assert sorted(entry for entries in lists.values() for entry in entries) == list(range(ids.size))
        assert plan["dropped"] == len(lists["dropped"])
        kinds = {kind: count + len(lists[kind]) for kind, count in kinds.items()}
    assert min(kinds.values()) > 0


def grouped(plan: Any, first: int, count: int, places: Ids, ids: Ids) -> list[int]:
    """The entries of some groups, each of its own expert, which is at its place."""
    found: list[int] = []
    for group in plan["group"][first : first + count]:
        entries = plan["entries"][group["first"] : group["first"] + group["count"]].tolist()
        assert group["slot"] == places[group["expert"]] >= 0
        assert set(ids.reshape(-1)[entries].tolist()) == {int(group["expert"])}
        found += entries
    return found


@pytest.mark.parametrize("resident", [0, 8])
def test_nothing_or_everything_resident(machine: Machine, wave: int, resident: int) -> None:
    ids = np.arange(16, dtype=np.int32).reshape(2, 8) % 8
    slots = np.arange(8, dtype=np.int32) if resident else np.full(8, -1, np.int32)
    plan, error = make_plan(machine, wave, ids, None, slots, all_resident=resident == 8)
    assert error == 0
    assert (plan["groups"], plan["device_entries"], plan["cpu_entries"]) == ((8, 16, 0) if resident else (0, 0, 16))


def test_one_expert_for_a_whole_window_is_one_group(machine: Machine, wave: int) -> None:
    ids = np.full((8, 16), 3, np.int32)
    plan, _ = make_plan(machine, wave, ids, None, np.arange(8, dtype=np.int32))
    assert plan["group"][: plan["groups"]].tolist() == [(3, 0, 128, 3)]
    assert plan["entries"].tolist() == list(range(128))


@pytest.mark.parametrize(
    ("change", "all_resident", "word"),
    [
        ({(1, 2): 5}, True, NOT_RESIDENT | 10 << 8),
        ({(1, 2): 5, (0, 7): 6}, True, NOT_RESIDENT | 7 << 8),
        ({(1, 1): 48}, False, BAD_ID | 9 << 8),
        ({(1, 1): -2}, False, BAD_ID | 9 << 8),
        ({(0, 3): 7}, False, BAD_SLOT | 3 << 8),
        ({(1, 7): 5, (0, 3): 7}, True, BAD_SLOT | 3 << 8),
    ],
)
def test_what_cannot_be_is_an_error_word_and_an_empty_plan(
    machine: Machine, wave: int, change: dict[tuple[int, int], int], all_resident: bool, word: int
) -> None:
    slots = np.full(48, -1, np.int32)
    slots[10:20] = range(10)
    slots[7] = 12
    ids = np.arange(10, 18, dtype=np.int32) + np.array([[0], [2]], np.int32)
    for place, expert in change.items():
        ids[place] = expert
    plan, error = make_plan(machine, wave, ids, None, slots, all_resident=all_resident, most=10)
    assert error == word
    assert (plan["groups"], plan["device_entries"], plan["cpu_entries"], plan["dropped"]) == (0, 0, 0, 16)
    assert plan["pcie_groups"] == 0
    assert not plan["owner"][:16].any()


def test_an_entry_of_no_weight_needs_no_slot(machine: Machine, wave: int) -> None:
    ids = np.array([[1, 5]], np.int32)
    slots = np.array([-1, 0, -1, -1, -1, -1], np.int32)
    plan, error = make_plan(machine, wave, ids, np.array([[1, 0]], np.float32), slots, all_resident=True)
    assert error == 0
    assert plan["owner"][:2].tolist() == [1, 0]


def test_a_window_of_no_tokens_is_an_empty_plan(machine: Machine, wave: int) -> None:
    plan, error = make_plan(machine, wave, np.zeros((0, 8), np.int32), None, np.zeros(8, np.int32))
    assert error == 0
    assert [plan[name] for name in ("groups", "device_entries", "cpu_entries", "dropped")] == [0, 0, 0, 0]


def test_windows_that_it_is_not_made_for_are_refused(machine: Machine, wave: int) -> None:
    for shape in ((9, 8), (2, 17)):
        with pytest.raises(Refused, match="window"):
            make_plan(machine, wave, np.zeros(shape, np.int32), None, np.zeros(8, np.int32))


@pytest.mark.parametrize("rank", [0, 1, 3, 7])
def test_the_tail_is_skipped_as_by_the_reference(machine: Machine, wave: int, rank: int) -> None:
    for tokens, seed in product((1, 2, 5, 8), range(3)):
        ids, weights, slots = routes(tokens, 8, 48, seed)
        expected = reference.tail_skip(ids, weights, slots, rank)
        done = machine.run("tail_skip", [*ids.shape, 48, rank], [ids, weights, slots], wave)
        assert np.array_equal(done[0], expected[0])
        assert np.array_equal(reference.bits(done[1]), reference.bits(expected[1]))
        assert rank != 1 or tokens == 1 or (done[0] != ids).any()


def test_an_expert_that_one_token_ranks_high_stays_for_all(machine: Machine, wave: int) -> None:
    ids = np.array([[1, 2, 3], [4, 5, 3], [3, 6, 7]], np.int32)
    weights = np.array([[0.5, 0.3, 0.2]] * 3, np.float32)
    slots = np.array([-1, 0, 1, -1, 2, -1, -1, -1], np.int32)
    new_ids, new_weights, _ = machine.run("tail_skip", [3, 3, 8, 1], [ids, weights, slots], wave)
    assert new_ids.tolist() == [[1, 2, 3], [4, -1, 3], [3, -1, -1]]
    assert (new_weights == np.where(new_ids < 0, 0, weights)).all()


def test_a_pick_of_no_expert_has_no_rank(machine: Machine, wave: int) -> None:
    ids, weights = np.array([[-1, 1, 2]], np.int32), np.array([[0.9, 0.5, 0.1]], np.float32)
    done = machine.run("tail_skip", [1, 3, 3, 1], [ids, weights, np.full(3, -1, np.int32)], wave)
    assert done[0].tolist() == [[-1, 1, -1]]


@pytest.mark.parametrize("rank", [-1, 8])
def test_ranks_that_no_pick_has_are_refused(machine: Machine, wave: int, rank: int) -> None:
    ids, weights, slots = routes(2, 8, 48)
    with pytest.raises(Refused, match="rank must be from 0 to top_k - 1"):
        machine.run("tail_skip", [*ids.shape, 48, rank], [ids, weights, slots], wave)
