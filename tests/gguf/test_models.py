"""Models in GGUF files compute what the same checkpoint computes from safetensors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Type

from strata_runtime.errors import UserError
from strata_runtime.model import Model
from support.checkpoints import AIR_OPTIONS, make_config, make_qwen_config, make_tensors, write_checkpoint
from support.gguf_models import named, write_model

from .conftest import LoadModel

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


def logits(model: Model) -> torch.Tensor:
    return model.forward(IDS, model.new_cache(64), logits="all")


@pytest.mark.parametrize("case", CONFIGS)
def test_the_same_network_from_either_kind_of_checkpoint(tmp_path: Path, load: LoadModel, case: str) -> None:
    config = CONFIGS[case]
    tensors = {name: tensor.float() for name, tensor in make_tensors(config).items()}
    expected = load(write_checkpoint(tmp_path / "model", config, tensors))
    found = load(write_model(tmp_path / "model.gguf", config, named(config, tensors)))
    # Metadata are in single precision: rope's base and the norms' epsilon may differ in their last bits.
    torch.testing.assert_close(logits(found), logits(expected), atol=1e-5, rtol=0)
    for field in ("family", "layers", "experts", "parameters", "further_layers", "context_length", "expert_format"):
        assert getattr(found.info, field) == getattr(expected.info, field)
    assert found.info.notes == ()


@pytest.mark.native
@pytest.mark.parametrize("make", [make_config, make_qwen_config], ids=["glm4_moe", "qwen3_moe"])
def test_every_matrix_may_be_in_a_format_of_its_own(
    tmp_path: Path, load: LoadModel, load_compiled: LoadModel, make: Callable[..., dict[str, object]]
) -> None:
    config = make(num_experts_per_tok=6)  # all of them: rounding must not choose others
    kinds = {"q": Type.Q8_0, "k": Type.F16, "v": Type.BF16, "output": Type.Q4_0, "gate": Type.Q8_0, "up": Type.Q4_0}
    kinds |= {"down": Type.F16, "embd": Type.Q8_0}

    def form(name: str) -> Type:
        # Experts' matrices differ by layer too, as in mixtures such as Q4_K_M.
        words = name.split(".")[-2].split("_")
        return Type.F32 if name.startswith("blk.2.ffn_up") else next((kinds[w] for w in words if w in kinds), Type.F32)

    weights = named(config, make_tensors(config))
    mixed = load_compiled(write_model(tmp_path / "mixed.gguf", config, weights, form=form))
    assert mixed.info.expert_format == "f16 and f32 and q4_0 and q8_0"
    decoded = {
        name: gguf.quants.dequantize(gguf.quants.quantize(value, kind), kind)
        if value.ndim > 1 and "gate_inp" not in name and (kind := form(name)) != Type.F32
        else value
        for name, value in weights.items()
    }
    expected = load(write_model(tmp_path / "decoded.gguf", config, decoded))
    # Activations are quantised to 8 bits for some of them.
    found, wanted = logits(mixed).log_softmax(-1), logits(expected).log_softmax(-1)
    torch.testing.assert_close(found, wanted, atol=0.1, rtol=0)
    assert (found - wanted).abs().mean() < 0.02


@pytest.mark.native
@pytest.mark.parametrize("kind", [Type.F16, Type.BF16])
def test_half_precision_costs_nothing_but_its_weights(tmp_path: Path, load_compiled: LoadModel, kind: Type) -> None:
    """Activations stay in float32: the bits are those of the same weights in F32."""
    config = make_config()
    weights = named(config, make_tensors(config))
    rounded = {
        name: gguf.quants.dequantize(gguf.quants.quantize(value, kind), kind)
        if value.ndim > 1 and "gate_inp" not in name
        else value
        for name, value in weights.items()
    }
    stored = load_compiled(write_model(tmp_path / "half.gguf", config, weights, form=lambda _: kind))
    assert stored.info.expert_format == kind.name.lower()
    exact = load_compiled(write_model(tmp_path / "full.gguf", config, rounded))
    assert torch.equal(logits(stored), logits(exact))


def scaled_by_hand(weights: dict[str, np.ndarray], scales: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    def scaled(name: str, value: np.ndarray) -> np.ndarray:
        scale = scales.get(name.removesuffix("weight") + "scale")
        return value if scale is None else value * (scale if scale.size == 1 else scale[:, None, None])

    return {name: scaled(name, value) for name, value in weights.items()}


def test_scales_of_quantised_weights_count(tmp_path: Path, load: LoadModel) -> None:
    config = make_qwen_config(attention_bias=True)
    weights = named(config, {k: v for k, v in make_tensors(config).items() if "o_proj.bias" not in k})
    random = np.random.default_rng(0)
    names = [f"attn_{one}" for one in ("q", "k", "v", "output")]
    scales = {f"blk.{layer}.{name}.scale": random.normal(size=1) for layer in range(3) for name in names}
    names = [f"ffn_{one}_exps" for one in ("gate", "up", "down")]
    scales |= {f"blk.{layer}.{name}.scale": random.normal(size=6) for layer in (0, 2) for name in names}
    scales["output.scale"] = np.array([0.5])
    scales = {name: scale.astype(np.float32) for name, scale in scales.items()}
    found = load(write_model(tmp_path / "scaled.gguf", config, weights | scales))
    expected = load(write_model(tmp_path / "plain.gguf", config, scaled_by_hand(weights, scales)))
    torch.testing.assert_close(logits(found), logits(expected), atol=1e-4, rtol=0)
    unscaled = load(write_model(tmp_path / "unscaled.gguf", config, weights))
    assert (logits(unscaled) - logits(expected)).abs().max() > 0.1


def test_any_part_of_a_split_file_opens_the_whole_model(tmp_path: Path, load: LoadModel) -> None:
    config = make_qwen_config()
    weights = named(config, make_tensors(config))
    whole = load(write_model(tmp_path / "whole.gguf", config, weights))
    write_model(tmp_path / "split.gguf", config, weights, split=15)
    parts = sorted(tmp_path.glob("split-*.gguf"))
    assert len(parts) == 3
    for part in parts:
        model = load(part)
        assert torch.equal(logits(model), logits(whole))
        assert model.info.path == parts[0]
        assert model.info.checkpoint_bytes == sum(one.stat().st_size for one in parts)


def test_weights_stay_where_the_file_has_them(tmp_path: Path) -> None:
    from strata_runtime.checkpoint.network import read_network
    from strata_runtime.checkpoint.source import open_checkpoint
    from strata_runtime.checkpoint.weights import load_weights
    from support.reference_provider import FORMATS, generated_families

    config = make_qwen_config()
    path = write_model(tmp_path / "model.gguf", config, named(config, make_tensors(config)))
    checkpoint = open_checkpoint(path, generated_families(), FORMATS)
    layers = read_network(checkpoint.config).layers
    weights = load_weights(checkpoint.tensors, checkpoint.config, checkpoint.layout, layers)
    stored = [*weights.tensors.values()]
    for layer in weights.layers:
        stored += [*layer.tensors.values(), *(expert for part in layer.experts.values() for expert in part)]
    base = np.frombuffer(checkpoint.tensors.found["token_embd.weight"].data.obj, np.uint8)
    assert len(base) == path.stat().st_size
    assert all(np.shares_memory(one.data, base) for one in stored)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda w: w.pop("blk.1.ffn_norm.weight"), "lacks tensors that its metadata promises, such as blk.1.ffn_norm"),
        (lambda w: w.pop("token_embd.weight"), r"the tensor 'token_embd.weight' is missing"),
        (lambda w: w.update({"blk.0.attn_output.bias": np.zeros(64, np.float32)}), "has no place for in family qwen3"),
        (lambda w: w.update({"rope_freqs.weight": np.ones(8, np.float32)}), "no place for .*: rope_freqs.weight"),
        (lambda w: w.update({"blk.3.attn_norm.weight": np.ones(64, np.float32)}), "no place for .*: blk.3.attn_norm"),
        (
            lambda w: w.update({"blk.0.ffn_up_exps.weight": w["blk.0.ffn_up_exps.weight"][:5]}),
            r"expected shape \[6, 32, 64\] \(num_experts, moe_intermediate_size, hidden_size\), found \[5, 32, 64\]",
        ),
        (
            lambda w: w.update({"blk.0.attn_q.scale": np.ones(2, np.float32)}),
            r"expected shape \[1\] \(1\), found \[2\]",
        ),
        (
            lambda w: w["blk.1.ffn_gate_inp.weight"].fill(np.nan),
            "ffn_gate_inp.weight': holds values that are not finite",
        ),
        (lambda w: w.update({"blk.0.attn_q.bias": np.zeros(64, np.float32)}), "such as blk.1.attn_q.bias"),
    ],
)
def test_tensors_that_do_not_fit_the_metadata(
    tmp_path: Path, load: LoadModel, spoil: Callable[[dict[str, np.ndarray]], object], message: str
) -> None:
    config = make_qwen_config()
    weights = named(config, make_tensors(config))
    spoil(weights)
    path = write_model(tmp_path / "model.gguf", config, weights)
    with pytest.raises(UserError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))


def test_a_type_that_cannot_be_read(tmp_path: Path, load: LoadModel) -> None:
    config = make_qwen_config()
    weights = named(config, make_tensors(config))
    path = write_model(tmp_path / "model.gguf", config, weights, form=lambda _: Type.Q5_1)
    with pytest.raises(UserError, match="is stored as Q5_1, which cannot be read; what can be: BF16, F32, Q8_0"):
        load(path)
