"""The small checkpoints as GGUF files. Names and keys are written by hand: they are not taken from the specs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type

Config = Mapping[str, object]
Value = bool | int | float | str | list[int] | list[float]

_LAYER_NAMES = {
    "input_layernorm.weight": "attn_norm.weight",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm.weight": "attn_q_norm.weight",
    "self_attn.k_norm.weight": "attn_k_norm.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight",
    "mlp.gate.e_score_correction_bias": "exp_probs_b.bias",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.shared_experts.gate_proj": "ffn_gate_shexp",
    "mlp.shared_experts.up_proj": "ffn_up_shexp",
    "mlp.shared_experts.down_proj": "ffn_down_shexp",
    "enorm.weight": "nextn.enorm.weight",
    "hnorm.weight": "nextn.hnorm.weight",
    "eh_proj": "nextn.eh_proj",
    "shared_head.norm.weight": "nextn.shared_head_norm.weight",
}
_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def architecture(config: Config) -> str:
    """The family's name in GGUF files."""
    return {"glm4_moe": "glm4moe", "qwen3_moe": "qwen3moe"}[str(config["model_type"])]


def metadata(config: Config) -> dict[str, Value]:
    """What a converter writes of the network, without the architecture's name before the keys."""
    c = {name: value for name, value in config.items() if isinstance(value, int | float)}
    common: dict[str, Value] = {
        "block_count": c["num_hidden_layers"] + c.get("num_nextn_predict_layers", 0),
        "context_length": c["max_position_embeddings"],
        "embedding_length": c["hidden_size"],
        "feed_forward_length": c["intermediate_size"],
        "attention.head_count": c["num_attention_heads"],
        "attention.head_count_kv": c["num_key_value_heads"],
        "attention.key_length": c["head_dim"],
        "attention.value_length": c["head_dim"],
        "attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"]),
        "rope.freq_base": float(c["rope_theta"]),
        "expert_used_count": c["num_experts_per_tok"],
        "expert_feed_forward_length": c["moe_intermediate_size"],
    }
    if config["model_type"] == "qwen3_moe":
        return {**common, "expert_count": c["num_experts"]}
    return {
        **common,
        "rope.dimension_count": int(c["head_dim"] * c["partial_rotary_factor"]),
        "expert_count": c["n_routed_experts"],
        "expert_shared_count": c["n_shared_experts"],
        "leading_dense_block_count": c["first_k_dense_replace"],
        "expert_gating_func": 2,
        "expert_weights_scale": float(c["routed_scaling_factor"]),
        "expert_weights_norm": bool(c["norm_topk_prob"]),
        "nextn_predict_layers": c["num_nextn_predict_layers"],
    }


def _layer_name(config: Config, rest: str) -> str:
    post = "post_attention_norm" if config["model_type"] == "glm4_moe" else "ffn_norm"
    known = {**_LAYER_NAMES, "post_attention_layernorm.weight": f"{post}.weight"}
    stem, _, suffix = rest.rpartition(".")
    return known[rest] if rest in known else f"{known[stem]}.{suffix}"


def named(config: Config, tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """The tensors in float32 by their GGUF names, experts stacked."""
    found: dict[str, np.ndarray] = {}
    stacks: dict[str, list[np.ndarray]] = {}
    for name, tensor in tensors.items():
        value = tensor.float().numpy()
        if name in _NAMES:
            found[_NAMES[name]] = value
            continue
        layer, rest = name.removeprefix("model.layers.").split(".", 1)
        if ".experts." in rest:
            part = rest.split(".")[-2].removesuffix("_proj")
            stacks.setdefault(f"blk.{layer}.ffn_{part}_exps.weight", []).append(value)
        else:
            found[f"blk.{layer}.{_layer_name(config, rest)}"] = value
    return found | {name: np.stack(values) for name, values in stacks.items()}


def _add(writer: gguf.GGUFWriter, key: str, value: Value) -> None:
    if isinstance(value, bool):
        writer.add_bool(key, value)
    elif isinstance(value, int):
        (writer.add_uint32 if value >= 0 else writer.add_int32)(key, value)
    elif isinstance(value, float):
        writer.add_float32(key, value)
    elif isinstance(value, str):
        writer.add_string(key, value)
    else:
        writer.add_array(key, value)


def write_model(
    path: Path,
    config: Config,
    tensors: Mapping[str, np.ndarray],
    *,
    form: Callable[[str], Type] = lambda _: Type.F32,
    changes: Mapping[str, Value | None] | None = None,
    fill: Callable[[gguf.GGUFWriter], None] | None = None,
    split: int = 0,
) -> Path:
    """Write a model. `form`: type of each matrix by its name; what is no matrix stays F32.

    `changes`: metadata keys of the architecture to add, to replace, or (None) to leave out. `fill` is called with the
    writer before the end. `split`: tensors in each part.
    """
    own = architecture(config)
    writer = gguf.GGUFWriter(path, own, split_max_tensors=split)
    for key, value in {**metadata(config), **(changes or {})}.items():
        if value is not None:
            _add(writer, f"{own}.{key}", value)
    for name, tensor in tensors.items():
        kind = form(name) if tensor.ndim > 1 and "gate_inp" not in name else Type.F32
        writer.add_tensor(name, gguf.quants.quantize(np.ascontiguousarray(tensor), kind), raw_dtype=kind)
    if fill is not None:
        fill(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
