"""The layers of the training network. Shapes: B sequences, T positions, H hidden size, E experts, K picks per token."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from train_strata_tiny.config import TinyConfig

RotaryTable = tuple[Tensor, Tensor]


def rotary_table(config: TinyConfig, positions: int, device: torch.device) -> RotaryTable:
    """Return cosines and sines, float32 `[positions, rotary_dim]`."""
    exponents = torch.arange(0, config.rotary_dim, 2, device=device).float() / config.rotary_dim
    angles = torch.arange(positions, device=device).float()[:, None] / config.rope_theta**exponents
    both_halves = torch.cat((angles, angles), -1)
    return both_halves.cos(), both_halves.sin()


def rotate(x: Tensor, table: RotaryTable) -> Tensor:
    """Rotate the leading dimensions of `x` `[B, heads, T, head_dim]` by position, half against half."""
    cos, sin = table
    size = cos.shape[-1]
    turned, kept = x[..., :size], x[..., size:]
    swapped = torch.cat((-turned[..., size // 2 :], turned[..., : size // 2]), -1)
    return torch.cat(((turned * cos + swapped * sin).to(x.dtype), kept), -1)


class RMSNorm(nn.Module):
    """Root-mean-square norm over the last dimension, computed in float32."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` normalised, in its own dtype."""
        return functional.rms_norm(x.float(), (x.shape[-1],), self.weight.float(), self.eps).to(x.dtype)


class Attention(nn.Module):
    """Causal grouped-query attention with a norm on each query and key head."""

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, config.heads * config.head_dim, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, config.kv_heads * config.head_dim, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, config.kv_heads * config.head_dim, bias=False)
        self.o_proj = nn.Linear(config.heads * config.head_dim, config.hidden_size, bias=False)
        self.q_norm = RMSNorm(config.head_dim, config.norm_eps)
        self.k_norm = RMSNorm(config.head_dim, config.norm_eps)

    def forward(self, x: Tensor, table: RotaryTable) -> Tensor:
        """Map `[B, T, H]` to `[B, T, H]`."""
        query = rotate(self.q_norm(self._heads(self.q_proj(x))), table)
        key = rotate(self.k_norm(self._heads(self.k_proj(x))), table)
        value = self._heads(self.v_proj(x))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        output: Tensor = self.o_proj(mixed.transpose(1, 2).flatten(2))
        return output

    def _heads(self, x: Tensor) -> Tensor:
        return x.view(*x.shape[:-1], -1, self.head_dim).transpose(1, 2)


class GatedMLP(nn.Module):
    """down(silu(gate(x)) * up(x))."""

    def __init__(self, hidden_size: int, width: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden_size, width, bias=False)
        self.up_proj = nn.Linear(hidden_size, width, bias=False)
        self.down_proj = nn.Linear(width, hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[..., H]` to `[..., H]`."""
        output: Tensor = self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))
        return output


class MixtureOfExperts(nn.Module):
    """Routed experts and a shared one. The router scores by sigmoid; a bias that only picks keeps the loads even.

    `load` holds how many tokens each expert had in the last training pass, `[E]`.
    """

    bias: Tensor
    load: Tensor

    def __init__(self, config: TinyConfig) -> None:
        super().__init__()
        self.top_k = config.top_k
        self.router = nn.Parameter(torch.empty(config.experts, config.hidden_size))
        self.gate_up = nn.Parameter(torch.empty(config.experts, 2 * config.expert_width, config.hidden_size))
        self.down = nn.Parameter(torch.empty(config.experts, config.hidden_size, config.expert_width))
        self.shared = GatedMLP(config.hidden_size, config.expert_width)
        self.register_buffer("bias", torch.zeros(config.experts))
        self.register_buffer("load", torch.zeros(config.experts), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Map `[B, T, H]` to `[B, T, H]`."""
        flat = x.flatten(0, 1)
        ids, weights = self._route(flat)
        order = ids.flatten().argsort(stable=True)
        counts = torch.bincount(ids.flatten(), minlength=len(self.bias))
        if self.training:
            self.load.copy_(counts)
        token = order // self.top_k
        rows = self._experts(flat[token], counts)
        rows = rows * weights.flatten()[order][:, None].to(rows.dtype)
        routed = torch.zeros_like(flat, dtype=torch.float32).index_add(0, token, rows.float()).to(x.dtype)
        output: Tensor = routed.view_as(x) + self.shared(x)
        return output

    def _route(self, flat: Tensor) -> tuple[Tensor, Tensor]:
        """Return each token's experts and their weights, `[tokens, K]`; always in float32."""
        with torch.autocast(flat.device.type, enabled=False):
            scores = functional.linear(flat.float(), self.router.float()).sigmoid()
            ids = (scores + self.bias).topk(self.top_k, -1).indices
            weights = scores.gather(1, ids)
            return ids, weights / (weights.sum(-1, keepdim=True) + 1e-20)

    def _experts(self, rows: Tensor, counts: Tensor) -> Tensor:
        """Apply expert e to its `counts[e]` rows; `rows` `[tokens * K, H]` is sorted by expert."""
        if rows.device.type == "cuda":
            ends = counts.cumsum(0).to(torch.int32)
            with torch.autocast("cuda", enabled=False):
                gate_up = functional.grouped_mm(rows.bfloat16(), self.gate_up.bfloat16().transpose(1, 2), offs=ends)
                return functional.grouped_mm(_activate(gate_up), self.down.bfloat16().transpose(1, 2), offs=ends)
        parts = torch.split(rows, counts.tolist())
        return torch.cat(
            [
                functional.linear(_activate(functional.linear(part, gate_up)), down)
                for part, gate_up, down in zip(parts, self.gate_up, self.down, strict=True)
            ]
        )


def _activate(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.chunk(2, -1)
    return functional.silu(gate) * up
