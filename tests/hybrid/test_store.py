"""Experts of prompts: those without a slot are copied ahead of their use; who has one is looked at when it counts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
import torch

from strata_runtime.device.prompts import BySize, Prompts
from strata_runtime.device.weights import GROUP, Uploader
from strata_runtime.engine import Engine
from strata_runtime.hybrid.residency import Move
from strata_runtime.hybrid.store import SlotStore, _joined, _Span
from strata_runtime.layers.placing import Place
from strata_runtime.provider import Provider

pytestmark = pytest.mark.native

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
LAYERS, EXPERTS = 6, 48
IDS = [(7 * i * i + 3 * i) % 4000 for i in range(40)]


@pytest.fixture
def load(provider: Provider) -> Iterator[Callable[..., Engine]]:
    engines: list[Engine] = []

    def make(**settings: object) -> Engine:
        chosen = {"engine_context": 64, "pool_threads": 2, "device_precision": "fp32", **settings}
        engines.append(
            Engine.load(
                MODEL, environ={}, provider=provider, report=lambda _: None, device=torch.device("cpu"), **chosen
            )
        )
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def prompts_of(engine: Engine, together: int) -> tuple[Prompts, SlotStore]:
    executor: Any = engine._reader._model._prompts
    assert isinstance(executor, BySize)
    prompts: Any = executor._large
    prompts._together = together
    return prompts, prompts._store


def logprobs(engine: Engine) -> np.ndarray:
    return np.concatenate([np.array(rows) for rows in engine.logprob_rows(IDS, None)])


@pytest.mark.parametrize("together", [7, EXPERTS])
@pytest.mark.parametrize("slots", [0, 100])
def test_what_comes_next_is_on_its_way_when_it_is_asked_for(
    slots: int, together: int, load: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = load(expert_cache=slots)
    _, store = prompts_of(engine, together)
    begun: list[tuple[int, range]] = []
    asked: list[tuple[int, range]] = []
    begin, on_device = store._begin, store.on_device

    def skipped(last: tuple[int, range], now: tuple[int, range]) -> bool:
        """Whether nobody chose the experts in between."""
        return now[1].start != (last[1].stop if now[0] == last[0] else 0)

    def beginning(wanted: Any) -> Any:
        begun.append((wanted.layer, wanted.experts))
        return begin(wanted)

    def asking(layer: int, experts: range) -> Any:
        missing = store._residency.table[layer, experts.start : experts.stop] < 0
        was_begun = (layer, experts) in begun
        assert was_begun or not asked or not missing.any() or skipped(asked[-1], (layer, experts))
        asked.append((layer, experts))
        return on_device(layer, experts)

    monkeypatch.setattr(store, "_begin", beginning)
    monkeypatch.setattr(store, "on_device", asking)
    ahead = logprobs(engine)
    assert len(begun) > LAYERS / 2
    assert sum(some in asked for some in begun) > 0.9 * len(begun)
    monkeypatch.setattr(store, "_expect", lambda *_: None)
    assert np.array_equal(logprobs(engine), ahead)


def test_slots_that_change_between_prompts_are_seen(load: Callable[..., Engine]) -> None:
    engine = load(expert_cache=60, expert_adapt=True)
    before = logprobs(engine)
    windows: Any = engine._reader._model._windows
    residency = windows._residency
    for number in range(5):
        comes, goes = np.argwhere(residency.table < 0)[-1 - number], np.argwhere(residency.table >= 0)[number]
        slot = residency.free[0]
        windows._adapting._mover.start(tuple(comes.tolist()), slot)
        assert residency.exchange([Move(tuple(comes.tolist()), slot, tuple(goes.tolist()))])
    assert np.array_equal(logprobs(engine), before)


def test_what_was_expected_and_is_not_wanted_is_left(load: Callable[..., Engine]) -> None:
    _, store = prompts_of(load(expert_cache=0), 8)

    def first_bytes(layer: int, experts: range) -> list[bytes]:
        gate, _, _ = store.on_device(layer, experts)
        return [ctypes.string_at(int(address), 64) for address in gate.addresses]

    expected = {layer: first_bytes(layer, range(8, 16)) for layer in (0, 3)}
    for layer in (3, 0, 3, 3):
        assert first_bytes(layer, range(8, 16)) == expected[layer]
    assert expected[0] != expected[3]
    store.close()


def test_neighbours_are_copied_as_one() -> None:
    apart, first, second = _Span(90, 700, 10), _Span(0, 100, 20), _Span(20, 120, 30)
    assert _joined([second, apart, first]) == [_Span(0, 100, 50), apart]
    assert _joined([first, _Span(20, 130, 30)]) == [first, _Span(20, 130, 30)], "neighbours on one side alone"
    assert _joined([]) == []


def test_lanes_decode_weights_to_memory_of_their_own(load: Callable[..., Engine]) -> None:
    """A further layer reads a prompt on one lane while windows draft with it on another one."""
    engine = load(expert_cache=0)
    prompts, _ = prompts_of(engine, EXPERTS)
    before = logprobs(engine)
    with engine._reader._model.working(7):
        assert np.array_equal(logprobs(engine), before)
    first, second = prompts._decoded[0], prompts._decoded[7]
    assert not {each.data_ptr() for each in first} & {each.data_ptr() for each in second}


def test_rows_that_fill_no_group_are_arranged_otherwise_on_a_device(provider: Provider) -> None:
    uploader = Uploader(provider.native, torch.device("cpu"), 1)
    memory = np.zeros(4096, np.uint8)
    layout: Any = SimpleNamespace(rows=GROUP)
    place = Place(memory.ctypes.data, memory.size, layout, memory)
    whole, rest = (cast(Any, SimpleNamespace(shape=(rows, 32))) for rows in (2 * GROUP, 2 * GROUP + 8))
    assert uploader.is_arranged(whole, place)
    assert not uploader.is_arranged(rest, place)
