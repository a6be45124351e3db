"""Experts without slots that the device reads from the host's memory, and the share of them that it takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from strata_runtime.engine import Engine
from strata_runtime.hybrid.balance import Balance, share_of
from strata_runtime.hybrid.host_experts import HostExperts
from strata_runtime.hybrid.hybrid import Hybrid
from strata_runtime.hybrid.stock import Stock
from strata_runtime.provider import Provider

pytestmark = pytest.mark.native

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
ALL = 6 * 48
IDS = [(7 * i * i + 3 * i) % 4000 for i in range(40)]
DEVICES = {"pool": None, "as on a GPU": torch.device("cpu")}
Load = Callable[..., Engine]


@pytest.fixture
def load(provider: Provider) -> Iterator[Load]:
    engines: list[Engine] = []

    def make(device: str = "as on a GPU", **settings: object) -> Engine:
        chosen = {"engine_context": 64, "pool_threads": 2, "device_precision": "fp32", "expert_cache": 0, **settings}
        where = DEVICES[device]
        engines.append(Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None, device=where, **chosen))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


def logprobs(engine: Engine, window: int = 5) -> np.ndarray:
    return np.concatenate([np.array(rows) for rows in engine.logprob_rows(IDS, window)])


def windows_of(engine: Engine) -> Hybrid:
    executor = engine._reader._model._windows
    assert isinstance(executor, Hybrid)
    return executor


@pytest.mark.parametrize("form", ["stored", "q4_0", "q8_0"])
@pytest.mark.parametrize("device", DEVICES)
def test_an_expert_gives_the_same_bits_from_the_host_as_from_a_slot(device: str, form: str, load: Load) -> None:
    settings: Mapping[str, Any] = {"engine_expert_format": form, "expert_pcie_frac": 1}
    expected = logprobs(load(device, engine_expert_format=form, expert_cache=ALL))
    assert np.array_equal(logprobs(load(device, **settings)), expected)
    assert np.array_equal(logprobs(load(device, **settings, expert_cache=ALL // 2)), expected)


@pytest.mark.parametrize("frac", [0.3, 0.5, "auto"])
@pytest.mark.parametrize("device", DEVICES)
def test_any_share_is_the_same_network(device: str, frac: object, load: Load) -> None:
    expected = logprobs(load(device))
    for slots in (0, ALL // 2):
        found = logprobs(load(device, expert_pcie_frac=frac, expert_cache=slots))
        assert np.abs(found - expected).max() < 5e-3
        assert frac == "auto" or not np.array_equal(found, expected)


@pytest.mark.parametrize("plan", [False, True])
@pytest.mark.parametrize(
    "arm", [{"verify_defer_cpu": "1"}, {"verify_defer_cpu": "1", "verify_defer_cpu_below": 1.0}], ids=["light", "all"]
)
def test_what_the_device_reads_itself_is_never_late(arm: Mapping[str, Any], plan: bool, load: Load) -> None:
    plain = logprobs(load(expert_pcie_frac=1, expert_cache=99))
    assert np.array_equal(logprobs(load(expert_pcie_frac=1, expert_cache=99, verify_device_plan=plan, **arm)), plain)


@pytest.mark.parametrize("arm", [{"verify_ecap": 24}, {"route_tail_skip": 4}], ids=["cap", "tail skip"])
def test_what_is_left_out_does_not_depend_on_who_computes(arm: Mapping[str, Any], load: Load) -> None:
    slots = {"expert_cache": ALL // 2}
    none, whole = logprobs(load(**slots, **arm)), logprobs(load(**slots, **arm, expert_pcie_frac=1))
    assert np.abs(none - whole).max() < 5e-3
    assert np.abs(whole - logprobs(load(**slots, expert_pcie_frac=1))).max() > 1e-2


def test_windows_of_experts_that_all_have_slots_share_nothing(load: Load) -> None:
    assert windows_of(load(expert_cache=ALL, expert_pcie_frac=1))._pcie is None


def test_a_repeatable_engine_follows_no_times(load: Load) -> None:
    engine = load(expert_pcie_frac="auto", engine_repeatable=True)
    assert windows_of(engine)._pcie is None
    assert any("engine.repeatable" in note for note in engine.info.notes)
    kept = load(expert_pcie_frac=0.25, engine_repeatable=True)
    logprobs(kept)
    pcie = windows_of(kept)._pcie
    assert pcie is not None
    assert pcie.share == 0.25


def test_a_share_by_times_is_measured_and_followed(load: Load) -> None:
    engine = load(expert_pcie_frac="auto")
    pcie = windows_of(engine)._pcie
    assert pcie is not None
    assert 0 < pcie.share < 1
    pcie.share = 0.5
    seen = []
    for _ in range(3):
        logprobs(engine, 4)
        seen.append(pcie.share)
    assert all(share != 0.5 for share in seen)


@pytest.mark.parametrize("host_seconds", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("begin", [0.0, 0.4, 1.0])
def test_the_share_settles_where_both_halves_end_together(host_seconds: float, begin: float) -> None:
    """The device takes one second for all, the pool `host_seconds`."""
    balance, best, times = Balance(begin), share_of(1.0, 1 / host_seconds), []
    for _ in range(400):
        device, host = balance.share, (1 - balance.share) * host_seconds
        seconds = 0.2 + max(device, host)
        balance.follow(max(0.0, host - device), seconds)
        times.append(seconds)
    assert abs(balance.share - best) < 0.05
    assert max(times[-50:]) < 1.1 * (0.2 + best)


def test_a_gpu_takes_no_experts_that_are_not_arranged_for_it() -> None:
    device: Any = SimpleNamespace(device=torch.device("cuda"), uploader=SimpleNamespace(is_arranged=lambda *_: False))
    layer: Any = SimpleNamespace(experts={role: [0] for role in ("expert_gate", "expert_up", "expert_down")})
    loaded: Any = SimpleNamespace(places=([0], [0], [0]))
    assert HostExperts.of(Stock([layer], None, [loaded]), device) is None
