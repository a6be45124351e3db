"""Experts move into slots between windows, and a window's bits are those of the slots that it began with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from strata_runtime.engine import Engine
from strata_runtime.hybrid.adapting import Adapting, Exchange, Expert, exchanges
from strata_runtime.hybrid.hybrid import Hybrid
from strata_runtime.hybrid.placement import ExpertProfile
from strata_runtime.hybrid.residency import Move
from strata_runtime.provider import Provider

pytestmark = pytest.mark.native

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
LAYERS, EXPERTS, SLOTS, TOP_K = 6, 48, 60, 8
IDS = [(7 * i * i + 3 * i) % 4000 for i in range(40)]
Load = Callable[..., Engine]


def table(*held: Expert, layers: int = 2, experts: int = 6) -> np.ndarray:
    slots = np.full((layers, experts), -1, np.int32)
    for slot, place in enumerate(held):
        slots[place] = slot
    return slots


def scores(**asked: float) -> np.ndarray:
    """`a0=3`: expert 0 of the first layer was asked for in three windows."""
    found = np.zeros((2, 6), np.float32)
    for name, value in asked.items():
        found["ab".index(name[0]), int(name[1])] = value
    return found


def test_the_most_asked_comes_for_the_least_asked() -> None:
    held = table((0, 0), (0, 1), (1, 5))
    asked = scores(a0=90, a1=2, b5=1, a3=80, b2=95, b3=4)
    assert exchanges(asked, held, 9) == [Exchange((1, 2), (1, 5)), Exchange((0, 3), (0, 1))]
    assert exchanges(asked, held, 1) == [Exchange((1, 2), (1, 5))]
    assert exchanges(asked, held, 0) == []


@pytest.mark.parametrize("held", [(), tuple(np.ndindex(2, 6))])
def test_nothing_moves_where_none_or_all_have_slots(held: tuple[Expert, ...]) -> None:
    assert exchanges(scores(a0=90), table(*held), 4) == []


@pytest.mark.parametrize(("more", "less", "moves"), [(1, 0, False), (10, 0, True), (60, 40, False), (80, 40, True)])
def test_a_difference_that_chance_makes_moves_nothing(more: float, less: float, moves: bool) -> None:
    asked = np.full((2, 6), less, np.float32)
    asked[1, 1] = more
    assert bool(exchanges(asked, table((0, 0)), 4)) == moves


class Movers:
    """Copies that end when a test says so."""

    def __init__(self) -> None:
        self.started: list[tuple[Expert, int]] = []
        self.has_ended = False

    def start(self, expert: Expert, slot: int) -> Callable[[], bool]:
        self.started.append((expert, slot))
        return lambda: self.has_ended

    def close(self) -> None:
        self.has_ended = True


class Slots:
    """A residency without weights."""

    def __init__(self, held: np.ndarray, free: list[int]) -> None:
        self.table, self.free, self.is_read = held, free, False

    def exchange(self, moves: Sequence[Move]) -> bool:
        for move in () if self.is_read else moves:
            self.free.remove(move.slot)
            self.free.append(int(self.table[move.goes]))
            self.table[move.goes], self.table[move.comes] = -1, move.slot
        return not self.is_read


def test_an_expert_gets_its_slot_between_windows_once_its_copy_has_ended() -> None:
    slots, movers = Slots(table((0, 0), (0, 1)), [2]), Movers()
    adapting = Adapting(slots, movers)  # type: ignore[arg-type]
    before = slots.table.copy()
    for _ in range(30):
        adapting.before_window()
        assert np.array_equal(slots.table, before)
        adapting.asked[1, 4] = adapting.asked[0, 0] = 1
        adapting.after_window()
    assert movers.started == [((1, 4), 2)]  # and no other while it is on its way
    assert not adapting.asked.any()
    movers.has_ended = slots.is_read = True  # a prompt beside the windows
    adapting.before_window()
    assert np.array_equal(slots.table, before)
    slots.is_read = False
    adapting.before_window()
    assert (slots.table[1, 4], slots.table[0, 1], slots.table[0, 0]) == (2, -1, 0)
    assert slots.free == [1]


def test_slots_follow_what_is_asked_for_and_rest_when_it_stays() -> None:
    generator, held = np.random.default_rng(0), table((0, 0), (0, 1), (1, 0), layers=2, experts=6)
    slots, movers = Slots(held, [3, 4]), Movers()
    movers.has_ended = True
    adapting = Adapting(slots, movers)  # type: ignore[arg-type]

    def read(windows: int, chances: np.ndarray) -> int:
        before = len(movers.started)
        for _ in range(windows):
            adapting.before_window()
            adapting.asked[:] = generator.random((2, 6)) < chances
            adapting.after_window()
        return len(movers.started) - before

    hot = np.where(table((0, 5), (1, 2), (1, 3)) >= 0, 0.9, 0.1)
    assert read(200, hot) == 3
    assert sorted(map(tuple, np.argwhere(slots.table >= 0).tolist())) == [(0, 5), (1, 2), (1, 3)]
    assert read(2000, hot) == 0
    read(1000, np.full((2, 6), 0.3))
    assert read(3000, np.full((2, 6), 0.3)) < 30  # of 3,000 windows that could have moved two experts each


@pytest.fixture
def load(provider: Provider) -> Iterator[Load]:
    engines: list[Engine] = []

    def make(device: torch.device | None, **settings: object) -> Engine:
        chosen = {"engine_context": 64, "pool_threads": 2, "device_precision": "fp32", **settings}
        engines.append(
            Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None, device=device, **chosen)
        )
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def windows_of(engine: Engine) -> Hybrid:
    executor = engine._reader._model._windows
    assert isinstance(executor, Hybrid)
    return executor


def logprobs(engine: Engine) -> np.ndarray:
    return np.concatenate([np.array(rows) for rows in engine.logprob_rows(IDS, 5)])


def moved(held: np.ndarray, seed: int, count: int) -> list[Exchange]:
    generator = np.random.default_rng(seed)
    inside, outside = np.argwhere(held >= 0), np.argwhere(held < 0)
    comes, goes = generator.permutation(outside)[:count], generator.permutation(inside)[:count]
    return [Exchange(tuple(comer), tuple(goer)) for comer, goer in zip(comes.tolist(), goes.tolist(), strict=True)]


@pytest.mark.parametrize("device", [None, torch.device("cpu")], ids=["pool", "as on a GPU"])
def test_bits_are_those_of_a_run_that_has_had_the_placement_from_the_start(
    device: torch.device | None, load: Load, tmp_path: Path
) -> None:
    engine = load(device, expert_cache=SLOTS, expert_adapt=True, expert_adapt_bytes=1 << 20)
    hybrid = windows_of(engine)
    residency, adapting = hybrid._residency, hybrid._adapting
    assert adapting is not None
    for seed in range(3):
        adapting._scores[:] = 0  # nothing but what the test moves
        adapting.move(moved(residency.table, seed, min(12, len(residency.free))))
        adapting.before_window()
        counts = (residency.table >= 0).astype(np.int64)
        ExpertProfile(1, counts).save(tmp_path / f"{seed}.json")
        adapting._scores[:] = np.where(counts, 1e6, 0)
        found = logprobs(engine)
        assert np.array_equal(residency.table >= 0, counts > 0)
        same = load(device, expert_cache=SLOTS, expert_profile=str(tmp_path / f"{seed}.json"))
        assert np.array_equal(found, logprobs(same))
    assert (residency.table >= 0).sum() == SLOTS
    assert len({*residency.table[residency.table >= 0].tolist(), *residency.free}) == residency.slots


@pytest.mark.parametrize("slots", [3, SLOTS])
def test_windows_bring_what_they_ask_for(slots: int, load: Load) -> None:
    """Three are fewer than a token picks."""
    engine = load(torch.device("cpu"), expert_cache=slots, expert_adapt=True)
    residency = windows_of(engine)._residency
    before = residency.table >= 0
    first = logprobs(engine)
    for _ in range(3):
        last = logprobs(engine)
    after = residency.table >= 0
    assert not np.array_equal(before, after)
    assert before.sum() == after.sum() == slots
    assert np.abs(first - last).max() < 0.05


def test_no_slot_changes_hands_while_somebody_reads(load: Load) -> None:
    residency = windows_of(load(None, expert_cache=SLOTS, expert_adapt=True))._residency
    before, move = residency.table.copy(), Move((5, 47), residency.free[0], (0, 0))
    with residency.read(), residency.read():
        assert not residency.exchange([move])
    assert np.array_equal(residency.table, before)
    assert residency.exchange([move])
    assert residency.table[5, 47] == move.slot
    assert residency.free[-1] == 0


def test_a_repeatable_engine_moves_nothing(load: Load) -> None:
    engine = load(None, expert_cache=SLOTS, expert_adapt=True, engine_repeatable=True)
    assert windows_of(engine)._adapting is None
