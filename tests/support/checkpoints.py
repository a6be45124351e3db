"""Small random checkpoints, written by hand: names and shapes are not taken from the specs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import torch
from safetensors.torch import save_file

CONFIG = {
    "architectures": ["Glm4MoeForCausalLM"],
    "model_type": "glm4_moe",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "partial_rotary_factor": 0.5,
    "rope_theta": 10000.0,
    "use_qk_norm": True,
    "attention_bias": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
    "moe_intermediate_size": 32,
    "num_experts_per_tok": 2,
    "n_routed_experts": 6,
    "n_shared_experts": 1,
    "routed_scaling_factor": 1.0,
    "n_group": 1,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "norm_topk_prob": True,
    "num_nextn_predict_layers": 0,
    "tie_word_embeddings": True,
    "eos_token_id": 0,
}
"""A network in the manner of strata-tiny."""

AIR_OPTIONS = {
    "num_attention_heads": 12,
    "num_key_value_heads": 1,
    "head_dim": 8,
    "rope_theta": 1000000,
    "use_qk_norm": False,
    "attention_bias": True,
    "n_routed_experts": 16,
    "num_experts_per_tok": 8,
    "routed_scaling_factor": 1.5,
    "tie_word_embeddings": False,
    "eos_token_id": [3, 5, 7],
}
"""The options of GLM-4.5-Air, whose shape is larger: 96 heads of 128, 8 key heads, 128 experts, 46 layers."""


QWEN_CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"],
    "model_type": "qwen3_moe",
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "rope_theta": 1000000.0,
    "rope_scaling": None,
    "attention_bias": False,
    "hidden_act": "silu",
    "rms_norm_eps": 1e-6,
    "max_position_embeddings": 512,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "moe_intermediate_size": 32,
    "num_experts_per_tok": 2,
    "num_experts": 6,
    "norm_topk_prob": True,
    "use_sliding_window": False,
    "sliding_window": None,
    "tie_word_embeddings": False,
    "eos_token_id": 0,
}
"""A network in the manner of Qwen3-30B-A3B, whose shape is larger."""


def make_config(**changes: object) -> dict[str, object]:
    """`CONFIG` with changes; a value of `...` removes the key."""
    return _changed(CONFIG, changes)


def make_qwen_config(**changes: object) -> dict[str, object]:
    """`QWEN_CONFIG` with changes; a value of `...` removes the key."""
    return _changed(QWEN_CONFIG, changes)


def _changed(config: Mapping[str, object], changes: Mapping[str, object]) -> dict[str, object]:
    return {key: value for key, value in {**config, **changes}.items() if value is not ...}


def shapes(config: Mapping[str, object]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of every tensor, experts one by one."""
    return _qwen_shapes(config) if config["model_type"] == "qwen3_moe" else _glm_shapes(config)


def _qwen_shapes(config: Mapping[str, object]) -> Iterator[tuple[str, tuple[int, ...]]]:
    c = {key: value for key, value in config.items() if isinstance(value, int)}
    hidden, dim = c["hidden_size"], c["head_dim"]
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], hidden)
    for layer in range(c["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", (hidden,)
        yield f"{at}.post_attention_layernorm.weight", (hidden,)
        for name, rows, columns in (("q", q, hidden), ("k", kv, hidden), ("v", kv, hidden), ("o", hidden, q)):
            yield f"{at}.self_attn.{name}_proj.weight", (rows, columns)
            if config["attention_bias"]:
                yield f"{at}.self_attn.{name}_proj.bias", (rows,)
        yield f"{at}.self_attn.q_norm.weight", (dim,)
        yield f"{at}.self_attn.k_norm.weight", (dim,)
        yield f"{at}.mlp.gate.weight", (c["num_experts"], hidden)
        for expert in range(c["num_experts"]):
            yield from _mlp(f"{at}.mlp.experts.{expert}", hidden, c["moe_intermediate_size"])


def _glm_shapes(config: Mapping[str, object]) -> Iterator[tuple[str, tuple[int, ...]]]:
    c = {key: value for key, value in config.items() if isinstance(value, int)}
    hidden, wide = c["hidden_size"], c["moe_intermediate_size"]
    q, kv = c["num_attention_heads"] * c["head_dim"], c["num_key_value_heads"] * c["head_dim"]
    yield "model.embed_tokens.weight", (c["vocab_size"], hidden)
    yield "model.norm.weight", (hidden,)
    if not config["tie_word_embeddings"]:
        yield "lm_head.weight", (c["vocab_size"], hidden)
    further = c["num_nextn_predict_layers"]
    for layer in range(c["num_hidden_layers"] + further):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", (hidden,)
        yield f"{at}.post_attention_layernorm.weight", (hidden,)
        for name, rows in (("q", q), ("k", kv), ("v", kv)):
            yield f"{at}.self_attn.{name}_proj.weight", (rows, hidden)
            if config["attention_bias"]:
                yield f"{at}.self_attn.{name}_proj.bias", (rows,)
        yield f"{at}.self_attn.o_proj.weight", (hidden, q)
        if config["use_qk_norm"]:
            yield f"{at}.self_attn.q_norm.weight", (c["head_dim"],)
            yield f"{at}.self_attn.k_norm.weight", (c["head_dim"],)
        if layer < c["first_k_dense_replace"]:
            yield from _mlp(f"{at}.mlp", hidden, c["intermediate_size"])
            continue
        yield f"{at}.mlp.gate.weight", (c["n_routed_experts"], hidden)
        yield f"{at}.mlp.gate.e_score_correction_bias", (c["n_routed_experts"],)
        for expert in range(c["n_routed_experts"]):
            yield from _mlp(f"{at}.mlp.experts.{expert}", hidden, wide)
        yield from _mlp(f"{at}.mlp.shared_experts", hidden, wide * c["n_shared_experts"])
        if layer >= c["num_hidden_layers"]:
            yield f"{at}.eh_proj.weight", (hidden, 2 * hidden)
            for name in ("enorm", "hnorm", "shared_head.norm"):
                yield f"{at}.{name}.weight", (hidden,)


def _mlp(at: str, hidden: int, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{at}.gate_proj.weight", (width, hidden)
    yield f"{at}.up_proj.weight", (width, hidden)
    yield f"{at}.down_proj.weight", (hidden, width)


def make_tensors(config: Mapping[str, object], seed: int = 0) -> dict[str, torch.Tensor]:
    """Random weights with activations of ordinary size: BF16, and F32 for the router."""
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, shape in shapes(config):
        noise = torch.randn(shape, generator=generator)
        if "norm" in name:
            value = 1 + 0.2 * noise
        elif name.endswith("bias"):
            value = 0.1 * noise
        else:
            value = noise * shape[-1] ** -0.5
        tensors[name] = value if ".mlp.gate." in name else value.to(torch.bfloat16)
    return tensors


def fuse(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same checkpoint with all experts of a layer in two tensors, gate rows before up rows."""
    fused = {name: tensor for name, tensor in tensors.items() if ".experts." not in name}
    for layer in sorted({name.partition(".experts.")[0] for name in tensors if ".experts." in name}):
        count = len([name for name in tensors if name.startswith(f"{layer}.experts.")]) // 3

        def stacked(part: str, layer: str = layer, count: int = count) -> torch.Tensor:
            return torch.stack([tensors[f"{layer}.experts.{expert}.{part}_proj.weight"] for expert in range(count)])

        fused[f"{layer}.experts.gate_up_proj"] = torch.cat((stacked("gate"), stacked("up")), dim=1)
        fused[f"{layer}.experts.down_proj"] = stacked("down")
    return fused


def write_checkpoint(
    folder: Path, config: Mapping[str, object], tensors: Mapping[str, torch.Tensor] | None = None, shards: int = 1
) -> Path:
    """Write a checkpoint folder, in one file or in several with an index. Returns it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tensors = make_tensors(config) if tensors is None else tensors
    if shards == 1:
        save_file(dict(tensors), folder / "model.safetensors", metadata={"format": "pt"})
        return folder
    weight_map = {}
    for shard in range(shards):
        file = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        own = {name: tensor for index, (name, tensor) in enumerate(tensors.items()) if index % shards == shard}
        save_file(own, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(own, file)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
