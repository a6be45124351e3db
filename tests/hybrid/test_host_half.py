"""The host half answers the doorbell with the pool's rows, and every fault of a signal is survived or noticed."""

from __future__ import annotations

import ctypes
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from strata_gen.model.protocol import Side, WordKind
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.provider import Provider
from support.gate import Gate, child_code, opened_at_end

WORDS = tuple(word for protocol in load_specs((specs_root(),)).protocols for word in protocol.words)
HIDDEN, WIDTH, EXPERTS, TOP_K = 64, 32, 12, 4
PICKS, TOKENS = 16, 8
PRESENT = tuple(word.name for word in WORDS)
KNOBS = [("pool.threads", "2")]
MS = 1_000_000
NOBODY, DEVICE, CPU = range(3)


@dataclass(frozen=True)
class Weights:
    """Random experts of two layers, and the memory that they lie in."""

    layers: list[Any]
    memory: list[NDArray[np.float32]]


@pytest.fixture(scope="module")
def weights(provider: Provider) -> Weights:
    generator = np.random.default_rng(1)
    layers, memory = [], []
    for _ in range(2):
        parts = []
        for shape in ((EXPERTS, WIDTH, HIDDEN), (EXPERTS, WIDTH, HIDDEN), (EXPERTS, HIDDEN, WIDTH)):
            matrix = generator.standard_normal(shape, np.float32)
            memory.append(matrix)
            parts.append(("f32", [matrix[i].ctypes.data for i in range(EXPERTS)], [], None))
        layers.append(provider.native.make_experts(HIDDEN, WIDTH, *parts, memory[-3:]))
    return Weights(layers, memory)


class Half:
    """A host half, as the device half sees it. `slots` of the second layer: every third expert has one."""

    def __init__(self, provider: Provider, weights: Weights, **options: Any) -> None:
        settings = {"heavy_from": None, "timeout": 2000 * MS, "present": list(PRESENT), **options}
        self.native = provider.native
        self.weights = weights
        self.table = np.full((2, EXPERTS), -1, np.int32)
        self.table[1, ::3] = np.arange(len(self.table[1, ::3]))
        self.asked = np.zeros((2, EXPERTS), np.uint8)
        self.entries = np.zeros(2, np.int64)
        layers = [
            (layer, self.table[at].ctypes.data, self.asked[at].ctypes.data) for at, layer in enumerate(weights.layers)
        ]
        self.half = self.native.make_host_half(
            self.native.make_pool(KNOBS),
            layers,
            EXPERTS,
            self.table,
            HIDDEN,
            **settings,
            entries=self.entries.ctypes.data,
        )
        self.rows = self.floats(self.half.rows, TOKENS * PICKS * HIDDEN).reshape(-1, HIDDEN)

    @staticmethod
    def floats(address: int, count: int) -> NDArray[np.float32]:
        return np.frombuffer((ctypes.c_char * (4 * count)).from_address(address), np.float32)

    @property
    def owner(self) -> NDArray[np.uint8]:
        at = self.half.plan + self.native.device.OWNER_OFFSET
        return np.frombuffer((ctypes.c_char * (TOKENS * PICKS)).from_address(at), np.uint8)

    def publish(self, layer: int, ids: NDArray[np.int32], weights: NDArray[np.float32], x: NDArray[np.float32]) -> int:
        return int(self.half.publish(layer, *ids.shape, x.ctypes.data, ids.ctypes.data, weights.ctypes.data))

    def expected(self, layer: int, ids: NDArray[np.int32], x: NDArray[np.float32]) -> NDArray[np.float32]:
        """What the pool says when it is asked directly."""
        pool = self.native.make_pool(KNOBS)
        out = np.empty((ids.size, HIDDEN), np.float32)
        self.native.experts(
            pool, self.weights.layers[layer], *ids.shape, x.ctypes.data, ids.ctypes.data, out.ctypes.data
        )
        pool.close()
        return out


def routes(tokens: int, seed: int) -> tuple[NDArray[np.int32], NDArray[np.float32], NDArray[np.float32]]:
    """Ids with some of -1, weights, and inputs."""
    generator = np.random.default_rng(seed)
    ids = np.stack([generator.choice(EXPERTS, TOP_K, replace=False) for _ in range(tokens)]).astype(np.int32)
    ids[generator.random(ids.shape) < 0.2] = -1
    weights = generator.random((tokens, TOP_K), np.float32) * np.float32(0.3)
    return ids, weights, generator.standard_normal((tokens, HIDDEN), np.float32)


@pytest.fixture
def make(provider: Provider, weights: Weights) -> Iterator[Any]:
    halves: list[Half] = []

    def build(**options: Any) -> Half:
        halves.append(Half(provider, weights, **options))
        return halves[-1]

    yield build
    for half in halves:
        half.half.stop(2.0)


@pytest.fixture
def gate(make: Any) -> Iterator[Gate]:
    """Opens before the halves of `make` are stopped."""
    yield from opened_at_end()


@pytest.mark.parametrize("heavy_from", [None, 0.1, 1e9, 1e-9])
def test_rows_are_those_of_the_pool_split_or_not(make: Any, heavy_from: float | None) -> None:
    half = make(heavy_from=heavy_from)
    for turn in range(12):
        ids, weights, x = routes(turn % TOKENS + 1, turn)
        ring = half.publish(turn % 2, ids, weights, x)
        assert ring == turn + 1
        half.half.wait("partial_ready", ring)
        if heavy_from is not None:
            heavy = (weights >= heavy_from).ravel() & (half.owner[: ids.size] == CPU)
            early = half.rows[: ids.size][heavy].copy()
            assert (early == half.expected(turn % 2, ids, x)[heavy]).all()
        half.half.wait("rows_ready", ring)
        is_cpus = half.owner[: ids.size] == CPU
        assert (is_cpus == ((ids >= 0) & (half.table[turn % 2][ids] < 0)).ravel()).all()
        assert (half.rows[: ids.size][is_cpus] == half.expected(turn % 2, ids, x)[is_cpus]).all()


def test_the_experts_that_a_window_asked_for_are_told(make: Any) -> None:
    half = make()
    ids, weights, x = routes(5, 3)
    weights[2] = 0  # left out
    half.half.wait("rows_ready", half.publish(1, ids, weights, x))
    wanted = set(ids[(ids >= 0) & (weights != 0)].tolist())
    assert set(np.flatnonzero(half.asked[1]).tolist()) == wanted
    assert not half.asked[0].any()


def test_entries_are_counted_with_a_slot_and_in_all(make: Any) -> None:
    half = make()
    expected = np.zeros(2, np.int64)
    for layer, seed in ((0, 1), (1, 2), (1, 3)):
        ids, weights, x = routes(5, seed)
        weights[3] = 0  # left out
        half.half.wait("rows_ready", half.publish(layer, ids, weights, x))
        wanted = ids[(ids >= 0) & (weights != 0)]
        expected += np.count_nonzero(half.table[layer][wanted] >= 0), len(wanted)
    assert 0 < half.entries[0] < half.entries[1]
    assert half.entries.tolist() == expected.tolist()


def test_a_window_without_experts_for_the_host_is_answered_too(make: Any) -> None:
    half = make(heavy_from=0.1)
    ids, weights, x = routes(3, 0)
    ids[:] = -1
    ring = half.publish(0, ids, weights, x)
    half.half.wait("partial_ready", ring)
    half.half.wait("rows_ready", ring)
    assert (half.owner[: ids.size] == NOBODY).all()


def ask(half: Half, waits: Sequence[str]) -> None:
    ids, weights, x = routes(4, 5)
    for _ in range(3):
        ring = half.publish(1, ids, weights, x)
        for signal in waits:
            half.half.wait(signal, ring)
        is_cpus = half.owner[: ids.size] == CPU
        assert is_cpus.any()
        assert (half.rows[: ids.size][is_cpus] == half.expected(1, ids, x)[is_cpus]).all()


SIGNALS = tuple(word.name for word in WORDS if word.kind is WordKind.RING)
# As they are raised: rows_ready is the last.
WAITS = sorted(
    (word.name for word in WORDS if word.kind is WordKind.RING and word.writer is Side.HOST),
    key=lambda name: name == "rows_ready",
)


def test_the_package_has_the_words_of_the_specs(provider: Provider) -> None:
    told = [(signal.name, signal.kind, signal.writer, signal.stamped) for signal in provider.signals]
    assert told == [(word.name, word.kind, word.writer, word.stamp is not None) for word in WORDS]


@pytest.mark.parametrize("heavy_from", [None, 0.1])
@pytest.mark.parametrize("signal", SIGNALS)
@pytest.mark.parametrize("kind", ["late", "never", "early", "twice"])
def test_a_faulty_signal_is_survived_or_noticed(
    make: Any, provider: Provider, signal: str, kind: str, heavy_from: float | None
) -> None:
    stamped = {each.name for each in provider.signals if each.stamped}
    is_survived = kind == "late" or (kind == "early" and signal not in stamped)
    # An early one that is noticed ends its delay.
    half = make(
        heavy_from=heavy_from, timeout=150 * MS, faults=[(signal, kind, 2, 30 * MS if is_survived else 5000 * MS)]
    )
    waits = WAITS
    if is_survived:
        ask(half, waits)
        return
    with pytest.raises(half.native.StallError) as stalled:
        ask(half, waits)
    report = str(stalled.value)
    assert "seq = " in report
    assert "pool of 2 workers" in report
    assert {"never": "waited 0.15 s", "early": "before its data", "twice": "was raised to 3"}[kind] in report
    ids, weights, x = routes(1, 0)
    with pytest.raises(half.native.StallError, match="released"):
        half.publish(0, ids, weights, x)
    assert half.half.stop(2.0)
    fresh = make(heavy_from=heavy_from)
    ask(fresh, waits)


def test_a_wedged_pool_ends_in_a_report_and_another_half_works(make: Any, gate: Gate) -> None:
    half = make(timeout=100 * MS, wedge=gate.file)
    ids, weights, x = routes(2, 1)
    ring = half.publish(0, ids, weights, x)
    with pytest.raises(half.native.StallError) as stalled:
        half.half.wait("rows_ready", ring)
    assert "waited 0.1 s for rows_ready to reach 1" in str(stalled.value)
    assert "computing the first rows of ring value 1 of layer 0 for" in str(stalled.value)
    ask(make(), ("rows_ready",))


def test_who_sleeps_for_answers_is_woken_by_the_last_one(make: Any) -> None:
    half = make()
    ids, weights, x = routes(4, 5)
    for layer in (0, 1):
        ring = half.publish(layer, ids, weights, x)
        half.half.await_answers(0)
        assert half.half.ring == ring
        is_cpus = half.owner[: ids.size] == CPU
        assert (half.rows[: ids.size][is_cpus] == half.expected(layer, ids, x)[is_cpus]).all()


def test_who_sleeps_for_answers_is_woken_by_a_release_and_by_the_timeout(make: Any, gate: Gate) -> None:
    half = make(timeout=50 * MS, wedge=gate.file)
    ids, weights, x = routes(2, 1)
    half.publish(0, ids, weights, x)
    half.half.await_answers(0)  # the pool is stuck: after the timeout
    assert "computing the first rows" in half.half.report()
    patient = make(timeout=3600 * 1000 * MS)
    sleeper = threading.Thread(target=patient.half.await_answers, args=(1,))  # nobody rings
    sleeper.start()
    patient.half.stop(2.0)
    sleeper.join(20)
    assert not sleeper.is_alive()


def threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def test_a_stuck_pool_costs_one_patience_and_is_left_behind_with_its_weights(
    provider: Provider, weights: Weights, make: Any, gate: Gate
) -> None:
    before = threads()
    half = Half(provider, weights, wedge=gate.file)
    table = weakref.ref(half.table)
    half.half.wait("plan_ready", half.publish(0, *routes(2, 1)))
    start = time.monotonic()
    assert not half.half.stop(0.1)
    del half
    assert time.monotonic() - start < 1.1
    assert threads() > before
    assert table() is not None
    gate.open()
    while threads() > before:
        assert time.monotonic() - start < 60, "the thread that was left behind did not end"
        time.sleep(0.01)


def test_other_threads_run_while_a_half_that_is_dropped_ends(
    provider: Provider, weights: Weights, make: Any, gate: Gate
) -> None:
    half = Half(provider, weights, wedge=gate.file)
    table = weakref.ref(half.table)
    half.half.wait("plan_ready", half.publish(0, *routes(2, 1)))
    is_dropped = threading.Event()

    def mend() -> None:
        is_dropped.wait()
        gate.open()

    other = threading.Thread(target=mend)
    other.start()
    is_dropped.set()
    del half
    assert table() is None
    other.join()


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("is_stuck", [False, True])
def test_a_forked_child_is_told_to_make_a_half_of_its_own(make: Any, gate: Gate, is_stuck: bool) -> None:
    half = make(wedge=gate.file if is_stuck else -1)
    half.half.wait("plan_ready", half.publish(0, *routes(2, 1)))

    def child() -> None:
        for use in (lambda: half.publish(0, *routes(1, 0)), lambda: half.half.wait("rows_ready", 1)):
            with pytest.raises(RuntimeError, match=r"before fork\(\)"):
                use()
        assert "pool of 2 workers" in half.half.report()
        start = time.monotonic()
        assert not half.half.stop(60.0)
        del half.half
        assert time.monotonic() - start < 30

    assert child_code(child) == 0
    gate.open()
    half.half.wait("rows_ready", 1)
    ask(make(), ("rows_ready",))


def test_a_damaged_doorbell_is_an_error_and_no_crash(make: Any) -> None:
    ids, weights, x = routes(1, 0)
    for layer in (2, -1):
        half = make()
        ring = half.publish(layer, ids, weights, x)
        with pytest.raises(half.native.StallError, match=f"damaged: layer {layer}, 1 tokens, top 4"):
            half.half.wait("rows_ready", ring)


def test_a_window_that_does_not_fit_is_refused_before_the_bell_rings(make: Any) -> None:
    half = make()
    ids, _, x = routes(8, 0)
    with pytest.raises(ValueError, match="publish: a window has from 0 to"):
        half.half.publish(0, 9, TOP_K, x.ctypes.data, ids.ctypes.data, 0)
    ask(half, ("rows_ready",))


@pytest.mark.parametrize("resident", ["all", "none", "some"])
def test_a_plan_of_the_device_half_counts_every_entry(make: Any, resident: str) -> None:
    half = make(present=[name for name in PRESENT if name != "plan_ready"])
    ids, weights, x = routes(4, 2)
    if resident == "all":
        half.table[1] = np.arange(EXPERTS)
    elif resident == "none":
        half.table[1] = -1
    half.half.make_plan(1, *ids.shape, resident == "all", ids.ctypes.data, weights.ctypes.data)
    owner = half.owner[: ids.size].copy()
    assert ((owner == NOBODY) == (ids < 0).ravel()).all()
    assert ((owner == DEVICE) == ((ids >= 0) & (half.table[1][ids] >= 0)).ravel()).all()
    if resident != "all":
        half.half.wait("rows_ready", half.publish(1, ids, weights, x))
        is_cpus = owner == CPU
        assert (half.rows[: ids.size][is_cpus] == half.expected(1, ids, x)[is_cpus]).all()


@pytest.mark.parametrize("fault", [None, "late", "never", "early", "twice"])
def test_a_plan_that_meets_an_expert_without_slot_is_an_error_whatever_its_word_does(
    make: Any, fault: str | None
) -> None:
    half = make(faults=[("plan_error", fault, 0, 20 * MS)] if fault else [])
    ids, weights, _ = routes(2, 1)
    with pytest.raises(half.native.StallError, match=r"has no slot|leaves out \d+ of 8 entries"):
        half.half.make_plan(1, *ids.shape, True, ids.ctypes.data, weights.ctypes.data)
    with pytest.raises(half.native.StallError, match="released"):
        half.publish(0, *routes(1, 0))


@pytest.mark.parametrize("fault", ["late", "never", "early", "twice"])
def test_a_timeout_is_an_error_whatever_its_word_does(make: Any, gate: Gate, fault: str) -> None:
    half = make(timeout=50 * MS, wedge=gate.file, faults=[("wait_error", fault, 1, 20 * MS)])
    ring = half.publish(0, *routes(1, 0))
    with pytest.raises(half.native.StallError, match=r"waited 0\.05 s for rows_ready"):
        half.half.wait("rows_ready", ring)


def test_an_expert_that_is_none_is_an_error(make: Any) -> None:
    half = make()
    ids, weights, x = routes(1, 3)
    ids[0, 1] = EXPERTS
    ring = half.publish(0, ids, weights, x)
    with pytest.raises(
        half.native.StallError, match=rf"expert {EXPERTS} \(token 0, pick 1\) does not exist"
    ) as stalled:
        half.half.wait("rows_ready", ring)
    with pytest.raises(half.native.StallError, match="was released and runs no more") as refused:
        half.publish(0, ids, weights, x)
    for report in (str(stalled.value), str(refused.value)):
        assert "seq = 1 (" in report
        assert "rows_ready = 0 (" in report
        assert f"host half failed: ring value 1 of layer 0: expert {EXPERTS} " in report


def test_without_a_bell_there_is_no_half(make: Any) -> None:
    with pytest.raises(ValueError, match="without the signal seq nobody can ring"):
        make(present=[name for name in PRESENT if name != "seq"])


def test_words_and_faults_are_known_by_name(make: Any) -> None:
    with pytest.raises(ValueError, match="unknown signal 'sequence': there are seq, "):
        make(present=["sequence"])
    with pytest.raises(ValueError, match="unknown fault 'slow'"):
        make(faults=[("seq", "slow", 1, 0)])
