"""The approximations of a window against an independent evaluation, on strata-tiny and a text that it does not know."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from strata_runtime.engine import Engine
from strata_runtime.params import SamplingParams
from strata_runtime.provider import Provider
from support.arms_reference import Arm, Reference, mean_kl

pytestmark = pytest.mark.native

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
POSITIONS = 160
MIXTURES, EXPERTS, TOP_K = 6, 48, 8
HALF = MIXTURES * EXPERTS // 2
HALF_RESIDENT = frozenset((1 + slot // EXPERTS, slot % EXPERTS) for slot in range(HALF))  # layer 0 is dense
ALL_LATE: Mapping[str, object] = {"verify_defer_cpu": "1", "verify_defer_cpu_below": 1.0}

Load = Callable[..., Engine]


@pytest.fixture(scope="module")
def reference() -> Reference:
    return Reference(MODEL)


@pytest.fixture
def load(provider: Provider) -> Iterator[Load]:
    engines: list[Engine] = []

    def make(**settings: object) -> Engine:
        chosen = {"engine_context": 256, "pool_threads": 2, **settings}
        engines.append(Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None, **chosen))
        return engines[-1]

    yield make
    for engine in engines:
        engine.close()


@pytest.fixture(scope="module")
def ids(provider: Provider) -> list[int]:
    with Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None) as engine:
        text = (ROOT / "generator" / "strata_gen" / "host.py").read_text(encoding="utf-8")
        return list(engine.encode(text))[:POSITIONS]


def logprobs(engine: Engine, ids: list[int], window: int) -> torch.Tensor:
    return torch.from_numpy(np.concatenate(list(engine.logprob_rows(ids, window))))


@pytest.fixture(scope="module")
def exact(provider: Provider, ids: list[int]) -> torch.Tensor:
    with Engine.load(MODEL, environ={}, provider=provider, report=lambda _: None) as engine:
        return logprobs(engine, ids, 1)


ARMS: Mapping[str, tuple[Mapping[str, object], Arm]] = {
    "all late": (ALL_LATE, Arm(late_below=math.inf)),
    "late below 0.1": ({"verify_defer_cpu": "1"}, Arm(late_below=0.1)),
    "late below 0.2": ({"verify_defer_cpu": "1", "verify_defer_cpu_below": 0.2}, Arm(late_below=0.2)),
    "all late, device plan": ({"verify_defer_cpu": "1", "verify_device_plan": True}, Arm(late_below=math.inf)),
    "all late, half resident": (
        {**ALL_LATE, "expert_cache": HALF},
        Arm(late_below=math.inf, resident=HALF_RESIDENT),
    ),
    "ecap 12": ({"verify_ecap": 12}, Arm(window=5, ecap=12)),
    "ecap 24": ({"verify_ecap": 24}, Arm(window=5, ecap=24)),
    "ecap 24, device plan": ({"verify_ecap": 24, "verify_device_plan": True}, Arm(window=5, ecap=24)),
    "ecap 24, all resident": ({"verify_ecap": 24, "expert_cache": 999}, Arm(window=5, ecap=24)),
    "ecap 24, all late": ({"verify_ecap": 24, **ALL_LATE}, Arm(window=5, ecap=24, late_below=math.inf)),
    "tail skip 6": ({"route_tail_skip": 6}, Arm(window=5, skip_from=6)),
    "tail skip 4, half resident": (
        {"route_tail_skip": 4, "expert_cache": HALF},
        Arm(window=5, skip_from=4, resident=HALF_RESIDENT),
    ),
}


@pytest.mark.parametrize("name", ARMS)
def test_an_approximation_is_as_far_from_exact_as_the_independent_one(
    name: str, load: Load, ids: list[int], exact: torch.Tensor, reference: Reference
) -> None:
    settings, arm = ARMS[name]
    expected = mean_kl(reference.logprobs(ids, Arm()), reference.logprobs(ids, arm))
    found = mean_kl(exact, logprobs(load(**settings), ids, 5))
    assert expected > 1e-4
    assert found == pytest.approx(expected, rel=0.03)


SAME_BITS: Mapping[str, Mapping[str, object]] = {
    "unset": {},
    "a host half without a resident expert": {"verify_device_plan": True},
    "a cap that caps nothing": {"verify_ecap": 5 * TOP_K},
    "a cap beyond what a kernel counts with": {"verify_ecap": 1 << 40},
    "a profile of the time": {"verify_profile": True},
}


@pytest.mark.parametrize("name", SAME_BITS)
def test_what_approximates_nothing_has_the_same_bits(
    name: str, load: Load, ids: list[int], exact: torch.Tensor
) -> None:
    assert torch.equal(logprobs(load(**SAME_BITS[name]), ids, 5), exact)


CLOSE: Mapping[str, Mapping[str, object]] = {
    "check": {"verify_defer_cpu": "check"},
    "check, all late": {"verify_defer_cpu": "check", "verify_defer_cpu_below": 2.0},
    "half resident": {"expert_cache": HALF},
    "all resident": {"expert_cache": MIXTURES * EXPERTS},
    "all resident, with a host half": {"expert_cache": MIXTURES * EXPERTS, "verify_all_resident": False},
    "all resident, deferred without an effect": {"expert_cache": MIXTURES * EXPERTS, **ALL_LATE},
}


@pytest.mark.parametrize("name", CLOSE)
def test_another_order_of_sums_is_rounding_alone(name: str, load: Load, ids: list[int], exact: torch.Tensor) -> None:
    found = logprobs(load(**CLOSE[name]), ids, 5)
    assert abs(mean_kl(exact, found)) < 1e-6
    assert (exact - found).abs().max() < 1e-3


def test_waiting_for_the_heavy_rows_is_far_closer_than_for_none(
    load: Load, ids: list[int], exact: torch.Tensor
) -> None:
    late = mean_kl(exact, logprobs(load(**ALL_LATE), ids, 1))
    assert mean_kl(exact, logprobs(load(verify_defer_cpu="1"), ids, 1)) * 10 < late


@pytest.mark.parametrize(
    "settings",
    [ALL_LATE, {"verify_defer_cpu": "1"}, {"verify_defer_cpu": "check"}, {"expert_cache": HALF}, {"expert_cache": 999}],
)
def test_text_and_bits_do_not_depend_on_the_windows(load: Load, ids: list[int], settings: Mapping[str, object]) -> None:
    steps = load(**settings)
    expected = logprobs(steps, ids, 1)
    for width in (2, 5, 8):
        assert torch.equal(logprobs(steps, ids, width), expected)
    sampling = SamplingParams(temperature=1, seed=5)
    text = steps.generate(ids[:40], sampling, max_tokens=40).run().token_ids
    drafted = load(**settings, window_draft="ngram", window_width=4)
    assert drafted.generate(ids[:40], sampling, max_tokens=40).run().token_ids == text


def test_prompts_are_read_exactly(load: Load, ids: list[int]) -> None:
    exact, late = load(), load(**ALL_LATE, verify_ecap=9)
    assert np.array_equal(exact.logprobs(ids), late.logprobs(ids), equal_nan=True)
    first = [engine.generate(ids, SamplingParams(temperature=0), max_tokens=1).run() for engine in (exact, late)]
    assert first[0].token_ids == first[1].token_ids
