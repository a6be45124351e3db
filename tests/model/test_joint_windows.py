"""Windows of several texts: each one's logits and cache have the bits of a window of its own."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
import torch

from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from support.checkpoints import make_config, make_qwen_config, write_checkpoint
from support.compiled import compiled_provider

pytestmark = pytest.mark.native

TINY = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
NETWORKS = {
    "glm": make_config(),
    "qwen": make_qwen_config(num_attention_heads=24, num_key_value_heads=8, num_experts=20, num_experts_per_tok=5),
}
DIVISIONS = [(1, 1), (1, 1, 1, 1), (2, 1, 3), (1,) * 8, (5, 3), (4,)]
KINDS = {
    "pool": {},
    "slots": {"expert_cache": 40},
    "inline": {"device": torch.device("cpu")},
    "inline-slots": {"device": torch.device("cpu"), "expert_cache": 40},
}


CASES = [*((kind, name) for kind in ("pool", "slots") for name in (*NETWORKS, "strata-tiny"))]
CASES += [("inline", "strata-tiny"), ("inline-slots", "strata-tiny")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    kind, name = request.param
    folder = TINY if name == "strata-tiny" else write_checkpoint(tmp_path_factory.mktemp("m") / "m", NETWORKS[name])
    options = dict(KINDS[kind])
    device = options.pop("device", None)
    provider = compiled_provider()
    resolution = resolve(provider.knobs, environ={}, python={"pool_threads": 2, **options})
    loaded = Model.load(folder, provider, provider.settings_type.from_values(resolution.values), device=device)
    yield loaded
    loaded.close()


@pytest.mark.parametrize("division", DIVISIONS, ids=str)
def test_a_text_does_not_feel_who_shares_its_window(model: Model, division: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(1)
    starts = [3, 70, 1, 20, 9, 33, 12, 5][: len(division)]
    texts = [torch.randint(0, model.info.vocab_size, (128,), generator=generator) for _ in division]
    alone, together = ([model.new_cache(128) for _ in division] for _ in range(2))
    for caches in (alone, together):
        for ids, start, cache in zip(texts, starts, caches, strict=True):
            model.forward(ids[:start], cache)
    for _ in range(3):
        expected, expected_states, parts = [], [], []
        for ids, tokens, cache, own in zip(texts, division, together, alone, strict=True):
            some = ids[cache.length : cache.length + tokens]
            states = model.new_states(tokens)
            expected.append(model.forward(some, own, logits="all", states=states, window=True).clone())
            expected_states.append(states)
            parts.append((some.tolist(), cache))
        states = model.new_states(sum(division))
        outcome = model.joint_window(parts, states)
        assert torch.equal(outcome.logits, torch.cat(expected))
        assert torch.equal(states, torch.cat(expected_states))
        assert [cache.length for cache in together] == [cache.length for cache in alone]
    for own, cache in zip(alone, together, strict=True):
        assert torch.equal(own.begin(own.length), cache.begin(cache.length))


def test_a_text_whose_logits_are_not_finite_leaves_the_others_as_they_are(model: Model) -> None:
    generator = torch.Generator().manual_seed(2)
    texts = [torch.randint(0, model.info.vocab_size, (40,), generator=generator) for _ in range(3)]
    alone, together = ([model.new_cache(64) for _ in texts] for _ in range(2))
    for caches in (alone, together):
        for ids, cache in zip(texts, caches, strict=True):
            model.forward(ids[:30], cache)
    together[1].data[0, :, :, 3] = torch.nan
    outcome = model.joint_window(
        [(ids[30:32].tolist(), cache) for ids, cache in zip(texts, together, strict=True)], None
    )
    assert not torch.isfinite(torch.tensor(outcome.total))
    ends = list(accumulate((2, 2, 2), initial=0))
    for at in (0, 2):
        expected = model.forward(texts[at][30:32], alone[at], logits="all", window=True)
        assert torch.equal(outcome.logits[ends[at] : ends[at + 1]], expected)
    assert not torch.isfinite(outcome.logits[2:4]).any()
