"""Tokens that share a pass: each one's logits have the bits of reading it alone, and wrong ones leave no trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_runtime.knobs import resolve
from strata_runtime.layers.by_token import by_token
from strata_runtime.model import Model
from support.checkpoints import AIR_OPTIONS, make_config, make_qwen_config, write_checkpoint
from support.compiled import compiled_provider

pytestmark = pytest.mark.native

TINY = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
WIDEST = 8
CONTEXT = 300
NETWORKS: Mapping[str, Mapping[str, object]] = {
    "glm": make_config(),
    # Widths that no vector divides; one key head; biases, and no norms of queries and keys.
    "air": make_config(**AIR_OPTIONS, n_shared_experts=3, moe_intermediate_size=33, intermediate_size=77),
    "qwen": make_qwen_config(num_attention_heads=24, num_key_value_heads=8, num_experts=20, num_experts_per_tok=5),
}


@pytest.fixture(scope="module", params=[*NETWORKS, "strata-tiny"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    if request.param in NETWORKS:
        folder = write_checkpoint(tmp_path_factory.mktemp("model") / "model", NETWORKS[request.param])
    else:
        folder = TINY
    provider = compiled_provider()
    values = provider.settings_type.from_values(resolve(provider.knobs, environ={}).values)
    loaded = Model.load(folder, provider, values)
    yield loaded
    loaded.close()


def ids_of(model: Model, count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(0, model.info.vocab_size, (count,), generator=torch.Generator().manual_seed(seed))


def read(model: Model, ids: torch.Tensor, at: int, widths: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits and states of `ids` from `at` on, in passes of `widths`; what is before `at` is read in one pass."""
    cache = model.new_cache(CONTEXT)
    model.forward(ids[:at], cache)
    rows, states = [], []
    for width in widths:
        state = torch.empty(width, model.info.hidden_size)
        rows.append(model.forward(ids[cache.length : cache.length + width], cache, logits="all", states=state))
        states.append(state)
    return torch.cat(rows), torch.cat(states)


@pytest.mark.parametrize("at", [0, 1, 37, 253])
@pytest.mark.parametrize("width", range(2, WIDEST + 1))
def test_windows_have_the_bits_of_single_steps(model: Model, at: int, width: int) -> None:
    ids = ids_of(model, at + 2 * width)
    rows, states = read(model, ids, at, [width, width])
    expected_rows, expected_states = read(model, ids, at, [1] * (2 * width))
    assert torch.equal(rows, expected_rows)
    assert torch.equal(states, expected_states)


@given(st.lists(st.integers(1, WIDEST), min_size=1, max_size=6), st.integers(0, 99))
@settings(max_examples=15, deadline=None)
def test_any_cut_into_windows_has_the_same_bits(model: Model, widths: list[int], seed: int) -> None:
    ids = ids_of(model, 20 + sum(widths), seed)
    assert torch.equal(read(model, ids, 20, widths)[0], read(model, ids, 20, [1] * sum(widths))[0])


@pytest.mark.parametrize("kept", [1, 2, 5, 7])
def test_what_was_forgotten_leaves_no_trace(model: Model, kept: int) -> None:
    ids, wrong = ids_of(model, 60), ids_of(model, 60, seed=1)
    cache = model.new_cache(CONTEXT)
    model.forward(ids[:40], cache)
    model.forward(torch.cat((ids[40 : 40 + kept], wrong[: WIDEST - kept])), cache, logits="all")
    cache.truncate(40 + kept)
    found = model.forward(ids[40 + kept : 45 + kept], cache, logits="all")
    assert torch.equal(found, read(model, ids, 40, [1] * kept + [5])[0][kept:])


def test_the_last_logits_are_those_of_the_last_of_all(model: Model) -> None:
    ids = ids_of(model, 6)
    states = torch.empty(6, model.info.hidden_size)
    last = model.forward(ids, model.new_cache(CONTEXT), states=states)
    rows, expected = read(model, ids, 0, [6])
    assert torch.equal(last[0], rows[-1])
    assert torch.equal(states, expected)


@pytest.mark.parametrize("features", [1, 17, 33, 48])
def test_exp_rounds_alike_in_any_company(features: int) -> None:
    x = torch.randn(WIDEST, features, generator=torch.Generator().manual_seed(0))
    together = x.clone()
    by_token(together, torch.Tensor.sigmoid_)
    assert torch.equal(together, torch.cat([row[None].clone().sigmoid_() for row in x]))
