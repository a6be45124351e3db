"""Checkpoints whose tensors are not what their config promises."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from strata_runtime.checkpoint.weights import Weights
from strata_runtime.errors import UserError
from support.checkpoints import make_config, make_tensors, write_checkpoint

Load = Callable[[Path], Weights]
Tensors = dict[str, torch.Tensor]
EXPERT = "model.layers.1.mlp.experts.5.up_proj.weight"
Q = "model.layers.0.self_attn.q_proj.weight"


def _drop(name: str) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.pop(name)


def _put(name: str, value: torch.Tensor) -> Callable[[Tensors], object]:
    return lambda tensors: tensors.update({name: value})


BF16 = torch.bfloat16
CASES: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "missing norm": (_drop("model.norm.weight"), "lacks tensors that config.json promises, such as model.norm.weight"),
    "missing expert": (_drop(EXPERT), f"lacks tensors that config.json promises, such as {EXPERT}"),
    "one expert too many": (
        _put("model.layers.1.mlp.experts.6.up_proj.weight", torch.zeros(32, 64, dtype=BF16)),
        "has no place for in family glm4_moe: model.layers.1.mlp.experts.6.up_proj.weight",
    ),
    "unknown tensor": (_put("model.bias", torch.zeros(3)), "has no place for in family glm4_moe: model.bias"),
    "head beside a tied embedding": (_put("lm_head.weight", torch.zeros(96, 64)), "has no place for"),
    "bias that the config denies": (_put("model.layers.0.self_attn.q_proj.bias", torch.zeros(64)), "has no place for"),
    "transposed": (
        _put("model.layers.0.mlp.up_proj.weight", torch.zeros(64, 96, dtype=BF16)),
        "'model.layers.0.mlp.up_proj.weight': expected shape [96, 64] (intermediate_size, hidden_size), found [64, 96]",
    ),
    "one dimension too many": (_put(Q, torch.zeros(64, 64, 1, dtype=BF16)), "found [64, 64, 1]"),
    "a scalar": (_put(Q, torch.zeros((), dtype=BF16)), f"'{Q}': expected shape [64, 64]"),
    "half precision": (
        _put(Q, torch.zeros(64, 64, dtype=torch.float16)),
        f"'{Q}': is stored as F16, which cannot be read; what can be: BF16, F32",
    ),
    "integers": (
        _put(EXPERT, torch.zeros(32, 64, dtype=torch.int8)),
        f"'{EXPERT}': is stored as I8, which cannot be read; what can be: BF16, F32",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_tensors_that_do_not_fit_the_config(tmp_path: Path, load: Load, case: str) -> None:
    spoil, expected = CASES[case]
    config = make_config()
    tensors = make_tensors(config)
    spoil(tensors)
    folder = write_checkpoint(tmp_path / "model", config, tensors)
    with pytest.raises(UserError) as caught:
        load(folder)
    assert str(caught.value).startswith(str(folder / "model.safetensors"))
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"num_hidden_layers": 4096}, "such as model.layers.3."),
        ({"n_routed_experts": 65536}, "such as model.layers.1.mlp.experts.6."),
        ({"hidden_size": 65}, "expected shape [96, 65]"),
        (
            {"vocab_size": 97},
            "'model.embed_tokens.weight': expected shape [97, 64] (vocab_size, hidden_size), found [96, 64]",
        ),
        ({"first_k_dense_replace": 3}, "such as model.layers.1.mlp.gate_proj.weight"),
        ({"tie_word_embeddings": False}, "such as lm_head.weight"),
        ({"attention_bias": True}, "such as model.layers.0.self_attn.q_proj.bias"),
    ],
)
def test_a_config_that_promises_another_network(
    checkpoint: Path, load: Load, changes: dict[str, object], expected: str
) -> None:
    (checkpoint / "config.json").write_text(json.dumps(make_config(**changes)))
    with pytest.raises(UserError) as caught:
        load(checkpoint)
    assert expected in str(caught.value)


def test_a_long_list_of_strangers_is_cut_short(tmp_path: Path, load: Load) -> None:
    config = make_config()
    tensors = make_tensors(config) | {f"stranger.{index}": torch.zeros(1) for index in range(8)}
    with pytest.raises(UserError, match=r"stranger\.0, .*, stranger\.4 and 3 more$"):
        load(write_checkpoint(tmp_path / "model", config, tensors))


# --- further-token layers


def test_further_layers_stand_apart(tmp_path: Path, load: Load) -> None:
    config = make_config(num_nextn_predict_layers=1)
    weights = load(write_checkpoint(tmp_path / "model", config))
    assert (len(weights.layers), len(weights.further)) == (3, 1)
    assert weights.parameters == sum(tensor.numel() for tensor in make_tensors(config).values())


def test_further_layers_may_be_absent(tmp_path: Path, load: Load) -> None:
    tensors = make_tensors(make_config())
    folder = write_checkpoint(tmp_path / "model", make_config(num_nextn_predict_layers=1), tensors)
    assert load(folder).further == ()


def test_a_further_layer_with_a_copy_of_the_embedding(tmp_path: Path, load: Load) -> None:
    config = make_config(num_nextn_predict_layers=1)
    copies = {
        "model.layers.3.embed_tokens.weight": torch.zeros(96, 64, dtype=BF16),
        "model.layers.3.shared_head.head.weight": torch.zeros(96, 64, dtype=BF16),
    }
    load(write_checkpoint(tmp_path / "model", config, make_tensors(config) | copies))


@pytest.mark.parametrize("name", ["enorm.weight", "mlp.experts.2.down_proj.weight"])
def test_half_a_further_layer_is_an_error(tmp_path: Path, load: Load, name: str) -> None:
    config = make_config(num_nextn_predict_layers=1)
    tensors = make_tensors(config)
    del tensors[f"model.layers.3.{name}"]
    with pytest.raises(UserError, match=f"such as model.layers.3.{name}"):
        load(write_checkpoint(tmp_path / "model", config, tensors))


def test_a_further_layer_of_another_shape_is_an_error(tmp_path: Path, load: Load) -> None:
    config = make_config(num_nextn_predict_layers=1)
    tensors = make_tensors(config) | {"model.layers.3.eh_proj.weight": torch.zeros(64, 64, dtype=BF16)}
    with pytest.raises(UserError, match=r"expected shape \[64, 128\] \(hidden_size, 2 \* hidden_size\)"):
        load(write_checkpoint(tmp_path / "model", config, tensors))


@pytest.mark.parametrize("name", ["model.layers.1.mlp.gate.weight", "model.layers.1.mlp.gate.e_score_correction_bias"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_damaged_router_that_would_only_choose_other_experts(
    tmp_path: Path, load: Load, name: str, value: float
) -> None:
    config = make_config()
    tensors = make_tensors(config)
    tensors[name].view(-1)[3] = value
    with pytest.raises(UserError, match=f"tensor '{name}': holds values that are not finite"):
        load(write_checkpoint(tmp_path / "damaged", config, tensors))
