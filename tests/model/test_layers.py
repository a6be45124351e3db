"""Layers one by one, against the formula in double precision or a case worked out by hand."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.checkpoint.config import read_config
from strata_runtime.checkpoint.network import Network, read_network
from strata_runtime.errors import UserError
from strata_runtime.layers.buffers import Workspace, make_buffers
from strata_runtime.layers.caches import make_cache
from strata_runtime.layers.compute import Activation
from strata_runtime.layers.linear import Linear
from strata_runtime.layers.norm import RmsNorm
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.layers.rotary import rotary_angles
from strata_runtime.layers.router import Router
from strata_runtime.params import MAX_WINDOW
from support.checkpoints import make_config
from support.reference_native import ReferenceNative
from support.reference_provider import generated_families, stored

COMPUTE = PoolCompute(ReferenceNative(), ReferenceNative().make_pool(()))


@pytest.fixture
def network(tmp_path: Path) -> Network:
    changes = {"n_routed_experts": 8, "num_experts_per_tok": 3, "hidden_size": 8, "routed_scaling_factor": 2.0}
    (tmp_path / "config.json").write_text(json.dumps(make_config(**changes)))
    return read_network(read_config(tmp_path, generated_families()))


# --- norms


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_rms_norm_is_its_formula(scale: float) -> None:
    generator = torch.Generator().manual_seed(0)
    x, weight = torch.randn(5, 48, generator=generator) * scale, torch.randn(48, generator=generator)
    wide = x.double()
    expected = wide / (wide.square().mean(-1, keepdim=True) + 1e-5).sqrt() * weight.double()
    RmsNorm(COMPUTE, weight, 1e-5)(x, out=Activation(x))
    torch.testing.assert_close(x.double(), expected, rtol=1e-5, atol=1e-9)


def test_rms_norm_of_zeros_is_zero() -> None:
    x = torch.zeros(2, 16)
    RmsNorm(COMPUTE, torch.ones(16, dtype=torch.bfloat16), 1e-5)(x, out=Activation(x))
    assert torch.equal(x, torch.zeros(2, 16))


# --- rotary positions


@pytest.mark.parametrize("factor", [0.0, 2.0])
def test_no_more_than_a_head_and_no_less_than_a_pair_is_rotated(tmp_path: Path, factor: float) -> None:
    (tmp_path / "config.json").write_text(json.dumps(make_config()))
    config = read_config(tmp_path, generated_families())
    lying = replace(config, values={**config.values, "partial_rotary_factor": factor})
    with pytest.raises(UserError, match="an even number from 2 to 16 can be rotated"):
        read_network(lying)


def test_an_angle_is_position_times_frequency(network: Network) -> None:
    half = network.rope_dim // 2
    positions = torch.arange(40, dtype=torch.float64)[:, None]
    frequencies = network.rope_theta ** (-torch.arange(half, dtype=torch.float64) / half)
    expected = torch.stack(((positions * frequencies).cos(), (positions * frequencies).sin()), dim=1)
    torch.testing.assert_close(rotary_angles(network, 40).double(), expected, rtol=0, atol=1e-5)


def test_position_zero_is_not_turned(network: Network) -> None:
    cosines, sines = rotary_angles(network, 1)[0]
    assert torch.equal(cosines, torch.ones_like(cosines))
    assert torch.equal(sines, torch.zeros_like(sines))


# --- linear layers


def test_a_bias_is_added_to_every_token() -> None:
    weight, bias = torch.randn(5, 4), torch.randn(5).to(torch.bfloat16)
    x, out = torch.randn(3, 4), torch.empty(3, 5)
    Linear(COMPUTE, {"q": stored(weight), "q_bias": stored(bias)}, "q")(Activation(x), out)
    torch.testing.assert_close(out, torch.nn.functional.linear(x, weight, bias.float()))


def test_a_scale_counts_before_the_bias() -> None:
    weight, bias, scale = torch.randn(5, 4), torch.randn(5), torch.tensor([-0.75])
    x, out = torch.randn(3, 4), torch.empty(3, 5)
    tensors = {"q": stored(weight), "q_bias": stored(bias), "q_scale": stored(scale)}
    Linear(COMPUTE, tensors, "q")(Activation(x), out)
    torch.testing.assert_close(out, x @ weight.T * scale + bias)


def test_an_embedding_decodes_the_rows_that_are_asked_for() -> None:
    weight = torch.randn(7, 4).to(torch.bfloat16)
    out = torch.empty(4, 4)
    COMPUTE.embedding(stored(weight))(torch.tensor([6, 0, 3, 0]), out)
    assert torch.equal(out, weight[[6, 0, 3, 0]].float())


# --- router


def route(
    network: Network, logits: list[list[float]], bias: list[float] | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Chosen ids and weights for given router logits: the router's matrix is the identity."""
    tensors = {"router": stored(torch.eye(8))}
    if bias is not None:
        tensors["router_bias"] = stored(torch.tensor(bias, dtype=torch.float32))
    buffers = Workspace(COMPUTE, network, 1).buffers(len(logits))
    buffers.normed.values.copy_(torch.tensor(logits))
    weights = Router(COMPUTE, tensors, network)(buffers)
    return buffers.expert_ids.clone(), weights


def test_equal_scores_are_broken_by_the_lower_index(network: Network) -> None:
    ids, weights = route(network, [[0.0] * 8, [0, 5, 0, 5, 0, 5, 0, 5], [1, 0, 0, 0, 0, 0, 0, 1]])
    assert ids.tolist() == [[0, 1, 2], [1, 3, 5], [0, 7, 1]]
    torch.testing.assert_close(weights[:2], torch.full((2, 3), 2 / 3))


def test_the_correction_bias_chooses_and_does_not_weigh(network: Network) -> None:
    ids, weights = route(network, [[3, 2, 1, 0, -1, -2, -3, -4]], bias=[0, 0, 0, 0, 0, 0, 0, 9])
    assert ids.tolist() == [[7, 0, 1]]
    scores = [1 / (1 + math.exp(-x)) for x in (-4, 3, 2)]
    torch.testing.assert_close(weights[0], torch.tensor([2 * score / sum(scores) for score in scores]))


def test_softmax_scores(network: Network) -> None:
    logits = torch.tensor([3.0, 2, 1, 0, -1, -2, -3, -4])
    softmax = replace(network, router_scores="softmax", router_scale=1.0)
    _, weights = route(replace(softmax, router_normalised=False), [logits.tolist()])
    torch.testing.assert_close(weights[0], logits.softmax(-1)[:3])
    ids, weights = route(softmax, [logits.tolist()])
    assert ids.tolist() == [[0, 1, 2]]
    torch.testing.assert_close(weights[0], logits[:3].softmax(-1))


def test_scores_that_all_vanish_weigh_nothing(network: Network) -> None:
    _, weights = route(network, [[-200.0] * 8])
    assert torch.equal(weights, torch.zeros(1, 3))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_logits_that_are_not_finite_still_choose_experts_that_exist(network: Network, value: float) -> None:
    # They come of states that are not finite, and the pass then says so.
    buffers = Workspace(COMPUTE, network, 1).buffers(1)
    router = Router(COMPUTE, {"router": stored(torch.full((8, 8), value))}, network)
    buffers.normed.values.fill_(1.0)
    router(buffers)
    chosen = buffers.expert_ids[0].tolist()
    assert len(set(chosen)) == 3
    assert all(0 <= expert < 8 for expert in chosen)


# --- KV cache


def test_a_cache_that_memory_does_not_hold_says_how_large_it_is(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(torch, "empty", refuse)
    needed = 2 * 4 * 3 * network.kv_heads * network.head_dim * 40
    with pytest.raises(UserError, match=f"no memory for a KV cache of {needed / 1024:.1f} KiB: lower engine.context"):
        make_cache(COMPUTE, network, 40, 3)


# --- buffers


def test_buffers_are_kept_for_short_passes_and_for_the_longest_one(network: Network) -> None:
    workspace = Workspace(COMPUTE, network, 16)
    kept = [workspace.buffers(tokens) for tokens in range(1, MAX_WINDOW + 1)]
    long = workspace.buffers(100)
    assert [workspace.buffers(tokens) for tokens in range(1, MAX_WINDOW + 1)] == kept
    assert workspace.buffers(100) is long
    shorter = workspace.buffers(50)
    assert shorter.tokens == 50
    for name in ("hidden", "added", "q", "k", "v", "up", "router", "expert_ids", "expert_rows"):
        mine, theirs, own = getattr(shorter, name), getattr(long, name), make_buffers(COMPUTE, network, 16, 50)
        assert mine.shape == getattr(own, name).shape
        assert mine.data_ptr() == theirs.data_ptr()
    for name in ("normed", "attended", "gate"):
        assert getattr(shorter, name).values.shape == getattr(own, name).values.shape
    assert workspace.buffers(100) is long
    assert workspace.buffers(101) is not long


def test_each_lane_has_buffers_of_its_own(network: Network) -> None:
    workspace = Workspace(COMPUTE, network, 16)
    for tokens in (3, 20):
        own = workspace.buffers(tokens)
        with COMPUTE.working(1):
            other = workspace.buffers(tokens)
            assert other.hidden.data_ptr() != own.hidden.data_ptr()
            assert workspace.buffers(tokens) is other
        assert workspace.buffers(tokens) is own


def test_the_widest_window_is_the_one_of_the_knobs() -> None:
    widths = [knob for knob in load_specs((specs_root(),)).knobs if knob.name in ("window.max_tokens", "window.width")]
    assert [knob.range.maximum for knob in widths] == [MAX_WINDOW, MAX_WINDOW]
