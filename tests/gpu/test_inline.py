"""What a GPU does, with kernels that run inline: layers through device kernels, experts in slots and beyond them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from strata_runtime.engine import Engine
from strata_runtime.hybrid import sharing
from strata_runtime.hybrid.residency import Residency
from strata_runtime.params import SamplingParams
from strata_runtime.provider import Provider
from support.compiled import compiled_provider

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
POSITIONS = 96
ALL = 6 * 48
CPU = torch.device("cpu")
PLACEMENTS: Mapping[str, Mapping[str, object]] = {
    "none in slots": {"expert_cache": 0},
    "half in slots": {"expert_cache": ALL // 2},
    "all in slots": {"expert_cache": ALL},
}
Load = Callable[..., Engine]


@pytest.fixture(scope="module")
def provider() -> Provider:
    return compiled_provider()


@pytest.fixture
def load(provider: Provider) -> Iterator[Load]:
    engines: list[Engine] = []

    def make(device: torch.device | None = CPU, **settings: object) -> Engine:
        chosen = {"engine_context": 256, "pool_threads": 2, "device_precision": "fp32", **settings}
        engines.append(
            Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None, device=device, **chosen)
        )
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture(scope="module")
def ids(provider: Provider) -> list[int]:
    with Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None) as engine:
        text = (ROOT / "generator" / "strata_gen" / "host.py").read_text(encoding="utf-8")
        return list(engine.encode(text))[:POSITIONS]


def logprobs(engine: Engine, ids: list[int], window: int | None) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.array(rows) for rows in engine.logprob_rows(ids, window)]))


@pytest.fixture(scope="module")
def on_pool(provider: Provider, ids: list[int]) -> torch.Tensor:
    with Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None) as engine:
        return logprobs(engine, ids, 1)


def far(a: torch.Tensor, b: torch.Tensor) -> float:
    likely = b.topk(20).indices
    return float((a.gather(1, likely) - b.gather(1, likely)).abs().max())


@pytest.mark.parametrize("window", [None, 1, 5])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_log_probabilities_are_those_of_the_pool(
    placement: str, window: int | None, load: Load, ids: list[int], on_pool: torch.Tensor
) -> None:
    assert far(logprobs(load(**PLACEMENTS[placement]), ids, window), on_pool) < 1e-3


@pytest.mark.parametrize(("window", "usual", "divergence"), [(None, 0.1, 2e-3), (5, 5e-3, 1e-4)])
def test_half_precision_is_near(
    window: int | None, usual: float, divergence: float, load: Load, ids: list[int], on_pool: torch.Tensor
) -> None:
    """Usual, for where two experts are nearly equal, rounding picks."""
    found = logprobs(load(device_precision="bf16", expert_cache=ALL), ids, window)
    likely = on_pool.topk(20).indices
    expected, given = on_pool.gather(1, likely), found.gather(1, likely)
    assert 0 < float((given - expected).abs().amax(1).median()) < usual
    assert float((expected.exp() * (expected - given)).sum(1).mean()) < divergence


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_windows_have_the_bits_of_single_steps(placement: str, load: Load, ids: list[int]) -> None:
    engine = load(**PLACEMENTS[placement])
    assert torch.equal(logprobs(engine, ids, 5), logprobs(engine, ids, 1))
    assert torch.equal(logprobs(engine, ids, 8), logprobs(engine, ids, 3))


@pytest.mark.parametrize("drafter", ["ngram", "mtp"])
@pytest.mark.parametrize("placement", ["none in slots", "all in slots"])
def test_text_is_the_same_with_any_drafter(placement: str, drafter: str, load: Load) -> None:
    texts = []
    for draft in ("none", drafter):
        engine = load(**PLACEMENTS[placement], window_draft=draft, window_width=0 if draft == "none" else 4)
        result = engine.generate("def add(a, b):\n    return", SamplingParams(seed=3), max_tokens=40).run()
        texts.append(result.token_ids)
    assert texts[0] == texts[1]


def test_passes_that_window_kernels_do_not_take_are_matrix_products(
    load: Load, provider: Provider, ids: list[int], on_pool: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a package whose windows have at most three tokens."""
    device, tokens = provider.native.device, []
    linear = device.linear

    def noting(pairs: Any, count: int, *others: Any) -> None:
        tokens.append(count)
        linear(pairs, count, *others)

    monkeypatch.setattr("strata_runtime.assembly._most_rows", lambda _: 3)
    monkeypatch.setattr(device, "linear", noting)
    engine = load(expert_cache=ALL // 2)
    for count in (7, 4, 3):
        assert far(logprobs(engine, ids[:count], None), on_pool[:count]) < 1e-3
    assert set(tokens) == {3}


def test_a_further_layer_has_room_beside_experts_that_are_arranged(load: Load) -> None:
    shared = {"expert_cache": 0, "engine_expert_format": "q8_0", "engine_weight_layout": "compute"}
    texts = []
    for draft in ("none", "mtp"):
        engine = load(**shared, window_draft=draft)
        texts.append(engine.generate([1, 2, 3], SamplingParams(temperature=0), max_tokens=8).run().token_ids)
    assert texts[0] == texts[1]


ARMS: Mapping[str, Mapping[str, object]] = {
    "all late": {"verify_defer_cpu": "1", "verify_defer_cpu_below": 1.0},
    "late below 0.1": {"verify_defer_cpu": "1"},
    "all late, device plan": {"verify_defer_cpu": "1", "verify_device_plan": True},
    "half in slots, late below 0.2": {
        "verify_defer_cpu": "1",
        "verify_defer_cpu_below": 0.2,
        "expert_cache": ALL // 2,
    },
    "cap, all in slots": {"verify_ecap": 24, "expert_cache": ALL},
    "tail skip, half in slots": {"route_tail_skip": 6, "expert_cache": ALL // 2},
}


@pytest.mark.parametrize("arm", ARMS)
def test_knobs_do_what_they_do_on_the_pool(arm: str, load: Load, ids: list[int]) -> None:
    settings = {"expert_cache": 0, **ARMS[arm]}
    assert far(logprobs(load(**settings), ids, 5), logprobs(load(None, **settings), ids, 5)) < 2e-3


def test_a_check_changes_the_order_of_sums_alone(load: Load, ids: list[int], on_pool: torch.Tensor) -> None:
    assert far(logprobs(load(verify_defer_cpu="check", expert_cache=0), ids, 5), on_pool) < 1e-3


def test_a_prompt_is_exact_whatever_windows_leave_out(load: Load, ids: list[int], on_pool: torch.Tensor) -> None:
    engine = load(verify_ecap=9, verify_defer_cpu="1", expert_cache=0)
    assert far(logprobs(engine, ids, None), on_pool) < 1e-3
    assert far(logprobs(engine, ids[:5], None), on_pool[:5]) < 1e-3
    assert math.isfinite(float(logprobs(engine, ids, 5).sum()))


def test_on_unified_memory_every_expert_has_a_slot_unless_a_number_is_given(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not provider.unified_memory
    unified, counts = replace(provider), []
    monkeypatch.setitem(vars(unified), "unified_memory", True)

    class Counted(Residency):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            counts.append((self.slots, self.is_complete))

    monkeypatch.setattr(sharing, "Residency", Counted)
    for chosen, settings in ((unified, {}), (unified, {"expert_cache": 5}), (provider, {})):
        quiet: dict[str, Any] = {
            "report": lambda _: None,
            "pool_threads": 2,
            "engine_context": 64,
            "device_precision": "fp32",
        }
        with Engine.load(MODEL, environ={}, provider=chosen, device=CPU, **quiet, **settings) as engine:
            assert engine.generate([1, 2, 3], max_tokens=2).run().token_ids
    assert counts == [(ALL, True), (5, False), (0, False)]
