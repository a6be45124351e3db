"""The numbers that the layers are built from, taken from a config by the rules of its family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from strata_runtime.checkpoint.config import Config
from strata_runtime.errors import UserError


@dataclass(frozen=True, slots=True)
class Network:
    """Sizes and options of one network. `rope_dim`: leading elements of a head that are rotated (even)."""

    vocab_size: int
    context_length: int
    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    norm_eps: float
    rope_theta: float
    rope_dim: int
    experts: int
    top_k: int
    expert_width: int
    router_scores: Literal["sigmoid", "softmax"]
    router_normalised: bool
    router_scale: float
    eos_ids: tuple[int, ...]

    @property
    def group(self) -> int:
        """Query heads that share one key and value head."""
        return self.heads // self.kv_heads


def _eos_ids(config: Config, vocab_size: int) -> tuple[int, ...]:
    ids = config.values[config.family.network.eos_ids]
    assert isinstance(ids, tuple)
    for token in ids:
        if token >= vocab_size:
            raise UserError(f"{config.path}: end token {token} is outside the vocabulary of {vocab_size}")
    return ids


def read_network(config: Config) -> Network:
    """Evaluate a family's formulas. Raises `UserError` for combinations that no network can have."""
    info, values = config.family.network, config.values
    vocab_size = config.size(info.vocab_size)
    head_dim, rope_dim = config.size(info.head_dim), config.size(info.rope_dim)
    if rope_dim % 2 or not 0 < rope_dim <= head_dim:
        raise UserError(
            f"{config.path}: {info.rope_dim} is {rope_dim}: an even number from 2 to {head_dim} can be rotated"
        )
    return Network(
        vocab_size=vocab_size,
        context_length=config.size(info.context_length),
        hidden_size=config.size(info.hidden_size),
        layers=config.size(info.layers),
        heads=config.size(info.heads),
        kv_heads=config.size(info.kv_heads),
        head_dim=head_dim,
        norm_eps=float(info.norm_eps.number(values)),
        rope_theta=float(info.rope_theta.number(values)),
        rope_dim=rope_dim,
        experts=config.size(info.experts),
        top_k=config.size(info.experts_per_token),
        expert_width=config.size(info.expert_width),
        router_scores=info.router_scores,
        router_normalised=info.router_normalised.holds(values),
        router_scale=float(info.router_scale.number(values)),
        eos_ids=_eos_ids(config, vocab_size),
    )
