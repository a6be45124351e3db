"""What the metadata of a GGUF file may say of the network: honoured, known to change nothing, or refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.network import read_network
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.errors import UserError
from support.checkpoints import make_config, make_qwen_config, make_tensors
from support.gguf_files import TEXT, gguf_bytes, key
from support.gguf_models import Value, named, write_model
from support.reference_provider import FORMATS, generated_families

GLM, QWEN = make_config(num_nextn_predict_layers=1), make_qwen_config()


def read(tmp_path: Path, config: dict[str, object], changes: dict[str, Value | None]) -> Config:
    weights = named(config, make_tensors(config))
    path = write_model(tmp_path / "model.gguf", config, weights, changes=changes)
    return open_checkpoint(path, generated_families(), FORMATS).config


@pytest.mark.parametrize("config", [GLM, QWEN], ids=["glm4_moe", "qwen3_moe"])
def test_values_are_those_of_config_json(tmp_path: Path, config: dict[str, object]) -> None:
    found = read(tmp_path, config, {})
    for name, value in found.values.items():
        expected = config.get(name, {"eos_token_id": ()}.get(name))
        if name == "eos_token_id":
            assert value == ()  # the file has no vocabulary
        else:
            assert value == (pytest.approx(expected) if isinstance(expected, float) else expected), name


HONOURED: dict[str, tuple[dict[str, object], dict[str, Value | None], dict[str, object]]] = {
    "no scale of routing weights": (GLM, {"expert_weights_scale": 0.0}, {"router_scale": 1.0}),
    "a scale of routing weights": (GLM, {"expert_weights_scale": 2.5}, {"router_scale": 2.5}),
    "routing weights as they are": (GLM, {"expert_weights_norm": None}, {"router_normalised": False}),
    "further layers are no layers": (GLM, {}, {"layers": 3}),
    "the usual base of rope": (QWEN, {"rope.freq_base": None}, {"rope_theta": 10000.0}),
    "rope over the whole head": (GLM, {"rope.dimension_count": None}, {"rope_dim": 16}),
    "a whole number for a float": (QWEN, {"rope.freq_base": 500000}, {"rope_theta": 500000.0}),
}


@pytest.mark.parametrize("case", HONOURED)
def test_what_is_honoured(tmp_path: Path, case: str) -> None:
    config, changes, expected = HONOURED[case]
    network = read_network(read(tmp_path, config, changes))
    assert {name: getattr(network, name) for name in expected} == expected


NEUTRAL: list[tuple[dict[str, object], str, Value]] = [
    (GLM, "rope.scaling.type", "none"),
    (GLM, "rope.scaling.type", "linear"),
    (GLM, "rope.scaling.factor", 0.0),
    (QWEN, "rope.scaling.factor", 1.0),
    (GLM, "rope.dimension_sections", [2, 1, 1, 0]),  # 4 pairs
    (GLM, "rope.dimension_sections", [8, 8, 8, 8]),
    (GLM, "rope.dimension_sections", [0, 0, 0, 0]),
    (GLM, "rope.dimension_sections", [1, 1, 1, 0]),  # they repeat
    (GLM, "expert_gating_func", 0),
    (QWEN, "expert_gating_func", 1),
    (QWEN, "expert_weights_norm", False),
    (QWEN, "expert_weights_scale", 0.0),
    (QWEN, "expert_shared_count", 0),
    (GLM, "expert_group_count", 1),
    (GLM, "swiglu_clamp_exp", [0.0, 0.0, 0.0]),
    (GLM, "final_logit_softcapping", 30.0),
    (QWEN, "ssm.inner_size", 7),
    (QWEN, "attention.indexer.head_count", 7),
    (GLM, "vocab_size", 96),
    (GLM, "expert_shared_feed_forward_length", 32),
    (QWEN, "attention.causal", True),
    (QWEN, "logit_scale", 1.0),
]


@pytest.mark.parametrize(("config", "name", "value"), NEUTRAL, ids=[f"{name}-{value}" for _, name, value in NEUTRAL])
def test_what_changes_nothing(tmp_path: Path, config: dict[str, object], name: str, value: Value) -> None:
    assert read(tmp_path, config, {name: value}).values == read(tmp_path, config, {}).values


REFUSED: list[tuple[dict[str, object], str, Value | None, str]] = [
    (GLM, "rope.scaling.type", "yarn", "is 'yarn', only 'none' or 'linear' works: other kinds of scaled rope"),
    (QWEN, "rope.scaling.factor", 4.0, "is 4.0, only 0 or 1 works: scaled rope is not supported"),
    (QWEN, "rope.scaling.attn_factor", 2.0, "scaled rope is not supported"),
    (QWEN, "rope.scaling.alpha", 2.0, "keys that family qwen3_moe has no place for: qwen3moe.rope.scaling.alpha"),
    (GLM, "rope.dimension_sections", [1, 1, 1, 1], "covers 6 of the 8 rotated elements of a head before its last"),
    (GLM, "rope.dimension_sections", [-1, 8, 8, 8], "must hold whole numbers from 0 up"),
    (GLM, "rope.dimension_sections", [float("nan"), 8.0, 8.0, 8.0], "must hold whole numbers from 0 up"),
    (GLM, "rope.dimension_sections", [1] * 65537, "has 65537 items, more than 65536"),
    (QWEN, "swiglu_clamp_exp", [0.0] * 65537, "has 65537 items, more than 65536"),
    (GLM, "rope.dimension_sections", "x", "must be an array, found 'x'"),
    (QWEN, "rope.dimension_sections", [0, 8, 0, 0], "holds 8, only 0 works: rope in sections"),
    (QWEN, "rope.dimension_count", 8, r"is 8, only 16 \(head_dim\) works: rope turns the whole head"),
    (GLM, "expert_gating_func", 1, "routers other than the sigmoid one"),
    (QWEN, "expert_gating_func", 2, "routers other than the softmax one"),
    (QWEN, "expert_weights_scale", 2.5, "scaled routing weights"),
    (QWEN, "expert_shared_count", 1, "shared experts are not supported"),
    (QWEN, "leading_dense_block_count", 1, "layers without experts"),
    (GLM, "expert_group_count", 4, "routing by groups of experts"),
    (GLM, "attention.causal", False, "is false, only true works"),
    (GLM, "attention.value_length", 8, r"is 8, only 16 \(head_dim\) works"),
    (GLM, "attention.sliding_window", 128, "other kinds of attention"),
    (GLM, "swiglu_clamp_exp", [0.0, 7.0, 0.0], "holds 7.0, only 0 works: clamped activations"),
    (GLM, "vocab_size", 97, r"is 97, only 96 \(vocab_size\) works"),
    (GLM, "a_key_of_tomorrow", 1, "keys that family glm4_moe has no place for: glm4moe.a_key_of_tomorrow"),
    (QWEN, "ssm_inner_size", 0, "has no place for"),
    (QWEN, "feed_forward_lengths", 0, "has no place for"),
    (QWEN, "attention.head_count", [4, 4, 4], "must be one value for all layers, found an array of i32"),
    (QWEN, "attention.head_count", 4.0, "expected a whole number, found 4.0"),
    (QWEN, "attention.head_count", True, "expected a whole number, found true"),
    (QWEN, "attention.head_count", 3, "is 3, not a multiple of num_key_value_heads"),
    (QWEN, "attention.head_count", None, "'qwen3moe.attention.head_count' is missing"),
    (QWEN, "block_count", 0, "must be at least 1, found 0"),
    (QWEN, "block_count", 1 << 31, "must be at most 4096"),
    (GLM, "nextn_predict_layers", 9, "must be at least 1, found -5"),
    (QWEN, "expert_used_count", 7, "is 7, more than num_experts"),
    (QWEN, "attention.layer_norm_rms_epsilon", 0.0, "must be above 0"),
    (QWEN, "attention.layer_norm_rms_epsilon", float("nan"), "expected a number, found nan"),
    (GLM, "rope.dimension_count", 32, "must be at most 1"),
    (GLM, "expert_weights_norm", 1, "expected true or false, found 1"),
]


@pytest.mark.parametrize(
    ("config", "name", "value", "message"), REFUSED, ids=[f"{name}-{value}" for _, name, value, _ in REFUSED]
)
def test_what_is_refused(
    tmp_path: Path, config: dict[str, object], name: str, value: Value | None, message: str
) -> None:
    with pytest.raises(UserError, match=message) as caught:
        read(tmp_path, config, {name: value})
    assert name in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path / "model.gguf"))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([], "'general.architecture' is missing; known: glm4moe, qwen3moe"),
        ([key("general.architecture", TEXT, "qwen3mo")], r"'qwen3mo' is not supported; .* did you mean 'qwen3moe'"),
        ([key("general.architecture", TEXT, "llama")], r"'llama' is not supported; known: glm4moe, qwen3moe"),
        ([key("general.architecture", 4, 3)], "must be text"),
    ],
)
def test_an_architecture_that_no_family_has(tmp_path: Path, keys: list[bytes], message: str) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(gguf_bytes(keys))
    with pytest.raises(UserError, match=message):
        open_checkpoint(path, generated_families(), FORMATS)


def test_biases_and_norms_are_found_by_their_tensors(tmp_path: Path) -> None:
    config = make_config(use_qk_norm=False, attention_bias=True)
    found = read(tmp_path, config, {}).values
    assert (found["use_qk_norm"], found["attention_bias"]) == (False, True)
    assert np.array_equal([found["tie_word_embeddings"]], [True])
