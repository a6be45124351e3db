"""A converted file holds the network of its folder, under the names and keys that other programs read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch

from strata_runtime.errors import UserError
from support.checkpoints import AIR_OPTIONS, fuse, make_config, make_qwen_config, make_tensors, write_checkpoint
from support.gguf_models import architecture, metadata, named

from .conftest import Convert, LoadModel

IDS = torch.arange(3, 43)
CONFIGS = {
    "glm4_moe": make_config(),
    "GLM-4.5-Air": make_config(**AIR_OPTIONS),
    "a further layer": make_config(num_nextn_predict_layers=1),
    "no dense layer": make_config(first_k_dense_replace=0),
    "raw routing weights": make_config(norm_topk_prob=False),
    "qwen3_moe": make_qwen_config(),
    "qwen3_moe, tied": make_qwen_config(tie_word_embeddings=True),
}
UNREAD = {"feed_forward_length"}  # of architectures without a dense layer


def written_keys(config: Mapping[str, object]) -> dict[str, object]:
    """The hand-written metadata of a network, by whole key."""
    no_dense = config["model_type"] == "qwen3_moe"
    keys = {key: value for key, value in metadata(config).items() if not (no_dense and key in UNREAD)}
    return {f"{architecture(config)}.{key}": value for key, value in keys.items()}


def same_type(field: gguf.ReaderField, value: object) -> bool:
    """Whether a field has the type in which converters write such a value."""
    kinds = {bool: gguf.GGUFValueType.BOOL, int: gguf.GGUFValueType.UINT32, float: gguf.GGUFValueType.FLOAT32}
    return field.types == [kinds[type(value)]]


@pytest.mark.parametrize("case", CONFIGS)
@pytest.mark.parametrize("is_fused", [False, True], ids=["one by one", "fused"])
def test_the_same_network_bit_for_bit(
    tmp_path: Path, load: LoadModel, to_gguf: Convert, case: str, is_fused: bool
) -> None:
    config, tensors = CONFIGS[case], make_tensors(CONFIGS[case])
    folder = write_checkpoint(tmp_path / "model", config, fuse(tensors) if is_fused else tensors, shards=2)
    to_gguf(folder, tmp_path / "model.gguf", "bf16")
    found, expected = load(tmp_path / "model.gguf"), load(folder)
    one, other = (model.forward(IDS, model.new_cache(64), logits="all") for model in (found, expected))
    assert torch.equal(one, other)
    for field in ("family", "layers", "experts", "parameters", "further_layers", "context_length"):
        assert getattr(found.info, field) == getattr(expected.info, field)


@pytest.mark.parametrize("case", CONFIGS)
def test_names_values_and_keys_are_those_of_the_architecture(tmp_path: Path, to_gguf: Convert, case: str) -> None:
    config, tensors = CONFIGS[case], make_tensors(CONFIGS[case])
    made = to_gguf(write_checkpoint(tmp_path / "model", config, tensors), tmp_path / "model.gguf")
    reader = gguf.GGUFReader(tmp_path / "model.gguf")
    expected = named(config, tensors)
    found = {tensor.name: tensor for tensor in reader.tensors}
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape.tolist() == list(reversed(value.shape))
        np.testing.assert_array_equal(found[name].data, value)
    for key, value in written_keys(config).items():
        assert reader.fields[key].contents() == pytest.approx(value, rel=1e-7), key
        assert same_type(reader.fields[key], value), key
    assert reader.fields["general.architecture"].contents() == architecture(config) == made.architecture
    assert reader.fields["general.name"].contents() == "model"


def test_vectors_and_the_router_stay_in_single_precision(tmp_path: Path, to_gguf: Convert) -> None:
    config = make_config(num_nextn_predict_layers=1, tie_word_embeddings=False)
    made = to_gguf(write_checkpoint(tmp_path / "model", config), tmp_path / "model.gguf", "q8_0", "bf16")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    small = {name for name in kinds if "norm" in name or "gate_inp" in name or name.endswith(".bias")}
    experts = {name for name in kinds if "_exps" in name}
    assert {kinds[name] for name in small} == {"F32"}
    assert {kinds[name] for name in experts} == {"Q8_0"}
    assert {kinds[name] for name in kinds.keys() - small - experts} == {"BF16"}
    assert {name: share.tensors for name, share in made.formats.items()} == {
        "f32": len(small),
        "q8_0": len(experts),
        "bf16": len(kinds) - len(small) - len(experts),
    }
    assert made.bytes == (tmp_path / "model.gguf").stat().st_size


def test_embedding_and_output_layer_have_a_format_of_their_own(tmp_path: Path, to_gguf: Convert) -> None:
    config = make_config(tie_word_embeddings=False)
    folder = write_checkpoint(tmp_path / "model", config)
    to_gguf(folder, tmp_path / "model.gguf", "f32", "bf16", vocabulary="q8_0")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    assert {name for name, kind in kinds.items() if kind == "Q8_0"} == {"token_embd.weight", "output.weight"}


def test_rows_that_blocks_do_not_divide_get_a_larger_format_and_a_note(tmp_path: Path, to_gguf: Convert) -> None:
    config = make_config(moe_intermediate_size=48)
    made = to_gguf(write_checkpoint(tmp_path / "model", config), tmp_path / "model.gguf", "q8_0")
    why = "is written as bf16: blocks of q8_0 (32 values) do not divide rows of 48"
    assert made.notes == (f"expert_down {why}", f"shared_down {why}")
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(tmp_path / "model.gguf").tensors}
    assert {name for name, kind in kinds.items() if kind == "BF16"} == {
        f"blk.{layer}.ffn_down_{part}.weight" for layer in (1, 2) for part in ("exps", "shexp")
    }


def test_further_layers_that_the_folder_lacks_are_not_counted(
    tmp_path: Path, load: LoadModel, to_gguf: Convert
) -> None:
    config = make_config(num_nextn_predict_layers=1)
    tensors = {name: one for name, one in make_tensors(config).items() if ".layers.3." not in name}
    made = to_gguf(write_checkpoint(tmp_path / "model", config, tensors), tmp_path / "model.gguf")
    assert made.notes == ("the checkpoint has no layers 'mtp', which config.json counts: left out",)
    fields = gguf.GGUFReader(tmp_path / "model.gguf").fields
    assert fields["glm4moe.nextn_predict_layers"].contents() == 0
    assert fields["glm4moe.block_count"].contents() == 3
    assert load(tmp_path / "model.gguf").info.further_layers == 0


def test_threads_change_no_byte(tmp_path: Path, to_gguf: Convert) -> None:
    folder = write_checkpoint(tmp_path / "model", make_qwen_config())
    for threads in (1, 3):
        to_gguf(folder, tmp_path / f"{threads}.gguf", "q8_0", threads=threads)
    assert (tmp_path / "1.gguf").read_bytes() == (tmp_path / "3.gguf").read_bytes()


# --- what GGUF cannot hold


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (make_qwen_config(attention_bias=True), "o_proj.bias': GGUF files of family qwen3_moe have no place for it"),
        (make_qwen_config(norm_topk_prob=False), "'norm_topk_prob' is False, but in GGUF files it would be True"),
    ],
)
def test_a_network_that_the_architecture_lacks_is_refused(
    tmp_path: Path, to_gguf: Convert, config: dict[str, object], message: str
) -> None:
    folder = write_checkpoint(tmp_path / "model", config)
    with pytest.raises(UserError, match=message):
        to_gguf(folder, tmp_path / "model.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


@pytest.mark.parametrize("name", ["model.embed_tokens.weight", "model.layers.1.mlp.experts.3.up_proj.weight"])
def test_values_that_are_not_finite_are_refused(tmp_path: Path, to_gguf: Convert, name: str) -> None:
    tensors = make_tensors(make_config())
    tensors[name][3, 5] = float("nan")
    folder = write_checkpoint(tmp_path / "model", make_config(), tensors)
    with pytest.raises(UserError, match=f"'{name}': holds values that are not finite"):
        to_gguf(folder, tmp_path / "model.gguf", "q8_0")
    assert not (tmp_path / "model.gguf").exists()


def test_values_beyond_a_format_are_refused(tmp_path: Path, to_gguf: Convert) -> None:
    tensors = make_tensors(make_config())
    tensors["model.embed_tokens.weight"][3, 5] = 1e30
    folder = write_checkpoint(tmp_path / "model", make_config(), tensors)
    with pytest.raises(UserError, match=r"values up to 1e\+30 are too large for q8_0"):
        to_gguf(folder, tmp_path / "model.gguf", "q8_0")


def test_a_gguf_file_is_no_source(tmp_path: Path, to_gguf: Convert) -> None:
    to_gguf(write_checkpoint(tmp_path / "model", make_config()), tmp_path / "model.gguf")
    with pytest.raises(UserError, match="starts from a folder with safetensors files, not from a GGUF file"):
        to_gguf(tmp_path / "model.gguf", tmp_path / "other.gguf")
