"""Routed experts may be kept in another format than the checkpoint's."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from strata_runtime.errors import UserError
from support.checkpoints import make_config, make_tensors, write_checkpoint

from .conftest import LoadModel

IDS = torch.arange(1, 31)
BYTES_PER_LAYER = {"f32": 4, "bf16": 2, "q8_0": 34 / 32}


def test_f32_is_exact_for_what_is_stored_in_bf16(tiny: Path, load_model: LoadModel) -> None:
    stored, converted = load_model(tiny), load_model(tiny, "f32")
    expected = stored.forward(IDS, stored.new_cache(32), logits="all")
    found = converted.forward(IDS, converted.new_cache(32), logits="all")
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert converted.info.expert_format == "f32"


def test_bf16_of_bf16_is_what_is_stored(tiny: Path, load_model: LoadModel) -> None:
    stored, same = load_model(tiny), load_model(tiny, "bf16")
    assert torch.equal(same.forward(IDS, same.new_cache(32)), stored.forward(IDS, stored.new_cache(32)))
    assert same.info.expert_bytes == stored.info.expert_bytes


def test_bf16_rounds_what_is_stored_in_f32(tmp_path: Path, load_model: LoadModel) -> None:
    config = make_config()
    rounded = make_tensors(config)
    exact = {n: t.float() * 1.001 if ".experts." in n else t for n, t in rounded.items()}
    rounded = {n: t.to(torch.bfloat16) if ".experts." in n else t for n, t in exact.items()}
    converted = load_model(write_checkpoint(tmp_path / "exact", config, exact), "bf16")
    expected = load_model(write_checkpoint(tmp_path / "rounded", config, rounded))
    torch.testing.assert_close(
        converted.forward(IDS, converted.new_cache(32)),
        expected.forward(IDS, expected.new_cache(32)),
        atol=1e-5,
        rtol=0,
    )


def test_q8_0_is_close_and_smaller(tiny: Path, load_model: LoadModel) -> None:
    stored, small = load_model(tiny), load_model(tiny, "q8_0")
    expected = stored.forward(IDS, stored.new_cache(32), logits="all").log_softmax(-1)
    found = small.forward(IDS, small.new_cache(32), logits="all").log_softmax(-1)
    divergence = (expected.exp() * (expected - found)).sum(-1)
    assert 0 < divergence.mean() < 2e-3
    assert small.info.expert_format == "q8_0"
    assert 0.5 < small.info.expert_bytes / stored.info.expert_bytes < 0.6


def test_a_width_that_blocks_do_not_divide(tmp_path: Path, load_model: LoadModel) -> None:
    folder = write_checkpoint(tmp_path / "model", make_config(moe_intermediate_size=48))
    with pytest.raises(UserError, match=r"engine.expert_format q8_0: a row of 48 values cannot be stored as q8_0"):
        load_model(folder, "q8_0")
    assert load_model(folder).info.expert_format == "bf16"


def test_experts_of_two_formats_in_one_layer(tmp_path: Path, load_model: LoadModel) -> None:
    config = make_config()
    tensors = make_tensors(config)
    name = "model.layers.2.mlp.experts.3.up_proj.weight"
    tensors[name] = tensors[name].float()
    folder = write_checkpoint(tmp_path / "model", config, tensors)
    with pytest.raises(UserError, match=r"the experts of layer 2 have up matrices in bf16 and f32: choose one"):
        load_model(folder)
    assert load_model(folder, "f32").info.expert_format == "f32"
