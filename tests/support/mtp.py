"""An independent evaluation of a GLM-4 MoE layer that predicts further tokens, in plain torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

Tensors = Mapping[str, torch.Tensor]


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps) * weight


def _rotate(x: torch.Tensor, config: Mapping[str, Any]) -> torch.Tensor:
    """`x` [tokens, heads, head_dim], positions from 0 on."""
    width = int(config["head_dim"] * config["partial_rotary_factor"])
    steps = torch.arange(0, width, 2, dtype=x.dtype) / width
    angles = torch.arange(len(x), dtype=x.dtype)[:, None, None] * config["rope_theta"] ** -steps
    first, second = x[..., : width // 2], x[..., width // 2 : width]
    turned = (first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin())
    return torch.cat((*turned, x[..., width:]), -1)


def _attention(x: torch.Tensor, at: str, tensors: Tensors, config: Mapping[str, Any]) -> torch.Tensor:
    dim, eps = config["head_dim"], config["rms_norm_eps"]

    def heads(name: str) -> torch.Tensor:
        rows = x @ tensors[f"{at}.{name}_proj.weight"].T
        if config["attention_bias"]:
            rows = rows + tensors[f"{at}.{name}_proj.bias"]
        rows = rows.view(len(x), -1, dim)
        normed = config["use_qk_norm"] and name != "v"
        return _norm(rows, tensors[f"{at}.{name}_norm.weight"], eps) if normed else rows

    q, k, v = _rotate(heads("q"), config), _rotate(heads("k"), config), heads("v")
    group = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    scores = torch.einsum("qhd,khd->hqk", q, k) * dim**-0.5
    scores = scores.masked_fill(torch.ones(len(x), len(x)).triu(1).bool(), -torch.inf)
    return torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).reshape(len(x), -1) @ tensors[f"{at}.o_proj.weight"].T


def _mlp(x: torch.Tensor, at: str, tensors: Tensors) -> torch.Tensor:
    gate, up = x @ tensors[f"{at}.gate_proj.weight"].T, x @ tensors[f"{at}.up_proj.weight"].T
    return (torch.nn.functional.silu(gate) * up) @ tensors[f"{at}.down_proj.weight"].T


def _moe(x: torch.Tensor, at: str, tensors: Tensors, config: Mapping[str, Any]) -> torch.Tensor:
    scores = (x @ tensors[f"{at}.gate.weight"].T).sigmoid()
    chosen = (scores + tensors[f"{at}.gate.e_score_correction_bias"]).topk(config["num_experts_per_tok"]).indices
    weights = scores.gather(1, chosen)
    weights = weights / weights.sum(-1, keepdim=True) * config["routed_scaling_factor"]
    rows = [
        sum(w * _mlp(row, f"{at}.experts.{e}", tensors) for w, e in zip(weights[i], chosen[i].tolist(), strict=True))
        for i, row in enumerate(x)
    ]
    return torch.stack(rows) + _mlp(x, f"{at}.shared_experts", tensors)


@torch.inference_mode()
def expected_states(
    ids: torch.Tensor, states: torch.Tensor, tensors: Tensors, config: Mapping[str, Any]
) -> torch.Tensor:
    """States of the layer, float64 [tokens, hidden_size], given those of the token before each of `ids`."""
    values = {name: tensor.to(torch.float64) for name, tensor in tensors.items()}
    at, eps = f"model.layers.{config['num_hidden_layers']}", config["rms_norm_eps"]
    embedded = values.get(f"{at}.embed_tokens.weight", values["model.embed_tokens.weight"])[ids]
    both = (
        _norm(embedded, values[f"{at}.enorm.weight"], eps),
        _norm(states.double(), values[f"{at}.hnorm.weight"], eps),
    )
    x = torch.cat(both, -1) @ values[f"{at}.eh_proj.weight"].T
    x = x + _attention(_norm(x, values[f"{at}.input_layernorm.weight"], eps), f"{at}.self_attn", values, config)
    x = x + _moe(_norm(x, values[f"{at}.post_attention_layernorm.weight"], eps), f"{at}.mlp", values, config)
    return _norm(x, values[f"{at}.shared_head.norm.weight"], eps)
