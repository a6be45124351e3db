"""An independent evaluation of the window's approximations: GLM-4-MoE in plain float32 torch, whole texts at once.

Nothing of the runtime is used. Each text is one pass: what a window changes (which entries are capped or skipped) is
worked out window by window, everything else does not depend on how positions are grouped.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file


@dataclass(frozen=True)
class Arm:
    """One approximation. `late_below`: rows of the CPU below this weight join late, math.inf all of them.

    `resident`: (layer, expert) pairs that are not the CPU's. `ecap` and `skip_from` work on windows of `window`.
    """

    window: int = 1
    late_below: float | None = None
    check: bool = False
    resident: frozenset[tuple[int, int]] = frozenset()
    ecap: int | None = None
    skip_from: int = 0


def cap_entries(ids: torch.Tensor, weights: torch.Tensor, cap: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Cap one window's entries, [tokens, top_k] each: in words, not as a kernel would."""
    tokens, top_k = ids.shape
    if tokens == 1 or cap >= tokens * top_k:
        return ids, weights
    flat_ids, flat_weights = ids.flatten().tolist(), weights.flatten().tolist()
    tail = sorted(range(top_k, tokens * top_k), key=lambda entry: (-flat_weights[entry], entry))
    kept = sorted([*range(top_k), *tail[: max(cap - top_k, 0)]])
    pool = list(dict.fromkeys(flat_ids[entry] for entry in kept))
    for turn, entry in enumerate(sorted(set(range(tokens * top_k)) - set(kept))):
        flat_ids[entry], flat_weights[entry] = pool[turn % len(pool)], 0.0
    return torch.tensor(flat_ids).view(ids.shape), torch.tensor(flat_weights).view(weights.shape)


class Reference:
    """The network of a checkpoint folder."""

    def __init__(self, folder: Path) -> None:
        self.config = json.loads((folder / "config.json").read_text())
        self.tensors = {name: value.float() for name, value in load_file(folder / "model.safetensors").items()}
        self.layers = self.config["num_hidden_layers"]
        self.dense = self.config["first_k_dense_replace"]

    def weight(self, layer: int, name: str) -> torch.Tensor:
        """A tensor of one layer."""
        return self.tensors[f"model.layers.{layer}.{name}"]

    def norm(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        """Root mean square norm over the last axis."""
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.config["rms_norm_eps"]) * weight

    def rotate(self, x: torch.Tensor) -> torch.Tensor:
        """Rotary positions on the first part of every head, [heads, tokens, head_dim]."""
        dim = int(self.config["head_dim"] * self.config["partial_rotary_factor"])
        rate = self.config["rope_theta"] ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
        angles = torch.arange(x.shape[1], dtype=torch.float64)[:, None] * rate
        cos, sin = angles.cos().float(), angles.sin().float()
        first, second = x[..., : dim // 2], x[..., dim // 2 : dim]
        return torch.cat((first * cos - second * sin, second * cos + first * sin, x[..., dim:]), -1)

    def mixer(self, x: torch.Tensor, layer: int) -> torch.Tensor:
        """Attention of one layer on normed inputs [tokens, hidden]."""
        heads, kv_heads = self.config["num_attention_heads"], self.config["num_key_value_heads"]

        def project(name: str, count: int) -> torch.Tensor:
            return (x @ self.weight(layer, f"self_attn.{name}_proj.weight").T).view(len(x), count, -1).transpose(0, 1)

        q, k, v = project("q", heads), project("k", kv_heads), project("v", kv_heads)
        q = self.rotate(self.norm(q, self.weight(layer, "self_attn.q_norm.weight")))
        k = self.rotate(self.norm(k, self.weight(layer, "self_attn.k_norm.weight")))
        k, v = (part.repeat_interleave(heads // kv_heads, 0) for part in (k, v))
        scores = q @ k.transpose(1, 2) / math.sqrt(self.config["head_dim"])
        scores += torch.full((len(x), len(x)), -math.inf).triu(1)
        attended = (scores.softmax(-1) @ v).transpose(0, 1).reshape(len(x), -1)
        return attended @ self.weight(layer, "self_attn.o_proj.weight").T

    def mlp(self, x: torch.Tensor, layer: int, name: str) -> torch.Tensor:
        """One gated MLP."""
        gate, up, down = (self.weight(layer, f"{name}.{part}_proj.weight") for part in ("gate", "up", "down"))
        return (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T

    def route(self, x: torch.Tensor, layer: int, arm: Arm) -> tuple[torch.Tensor, torch.Tensor]:
        """Experts and weights of every token, [tokens, top_k] each; an entry that is skipped has the weight 0."""
        scores = (x @ self.weight(layer, "mlp.gate.weight").T).sigmoid()
        ranked = scores + self.weight(layer, "mlp.gate.e_score_correction_bias")
        ids = ranked.sort(dim=-1, descending=True, stable=True).indices[:, : self.config["num_experts_per_tok"]]
        weights = scores.gather(1, ids)
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * self.config["routed_scaling_factor"]
        parts = []
        for first in range(0, len(x), arm.window):
            part = ids[first : first + arm.window], weights[first : first + arm.window]
            if arm.ecap is not None:
                part = cap_entries(*part, arm.ecap)
            if arm.skip_from:
                part = self.skip_tail(*part, layer, arm)
            parts.append(part)
        return torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])

    def skip_tail(
        self, ids: torch.Tensor, weights: torch.Tensor, layer: int, arm: Arm
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Drop experts that are not resident and that no token of the window has at a rank below `skip_from`."""
        ranks = weights.sort(dim=-1, descending=True, stable=True).indices.argsort(-1)
        wanted = set(ids[ranks < arm.skip_from].tolist())
        kept = [[e in wanted or (layer, e) in arm.resident for e in row] for row in ids.tolist()]
        return ids, weights * torch.tensor(kept, dtype=weights.dtype)

    def experts(
        self, x: torch.Tensor, layer: int, ids: torch.Tensor, weights: torch.Tensor, arm: Arm
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What joins at once, and what joins late."""
        late_weight = torch.zeros_like(weights)
        last = layer == self.layers - 1
        if arm.late_below is not None and not last:
            is_cpu = torch.tensor([[(layer, e) not in arm.resident for e in row] for row in ids.tolist()])
            late_weight = torch.where(is_cpu & (weights < arm.late_below), weights, late_weight)
        now, late = torch.zeros_like(x), torch.zeros_like(x)
        for expert in ids.unique().tolist():
            tokens, picks = (ids == expert).nonzero(as_tuple=True)
            rows = self.mlp(x[tokens], layer, f"mlp.experts.{expert}")
            own, own_late = weights[tokens, picks], late_weight[tokens, picks]
            now.index_add_(0, tokens, rows * (own - own_late)[:, None])
            late.index_add_(0, tokens, rows * own_late[:, None])
        return now, late

    def logprobs(self, ids: Sequence[int], arm: Arm) -> torch.Tensor:
        """Log-probabilities behind every token, float32 [tokens, vocab]."""
        hidden = self.tensors["model.embed_tokens.weight"][torch.tensor(ids)]
        late = torch.zeros_like(hidden)
        for layer in range(self.layers):
            hidden = hidden + self.mixer(self.norm(hidden, self.weight(layer, "input_layernorm.weight")), layer)
            hidden, late = hidden + late, torch.zeros_like(hidden)
            x = self.norm(hidden, self.weight(layer, "post_attention_layernorm.weight"))
            if layer < self.dense:
                hidden = hidden + self.mlp(x, layer, "mlp")
                continue
            now, late = self.experts(x, layer, *self.route(x, layer, arm), arm)
            hidden = hidden + now + self.mlp(x, layer, "mlp.shared_experts")
            if arm.check:
                hidden, late = hidden + late, torch.zeros_like(hidden)
        out = self.norm(hidden, self.tensors["model.norm.weight"])
        head: Mapping[str, torch.Tensor] = self.tensors
        return (out @ head.get("lm_head.weight", head["model.embed_tokens.weight"]).T).log_softmax(-1)


def mean_kl(a: torch.Tensor, b: torch.Tensor, top: int = 20) -> float:
    """Mean over positions of KL(a || b) over a's `top` most probable tokens, without renormalisation."""
    la, ids = a.topk(top, dim=-1)
    return float((la.exp() * (la - b.gather(1, ids))).sum(-1).double().mean())
