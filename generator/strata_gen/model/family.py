"""Model families: how a checkpoint's config and tensors are named and shaped, and what its layers compute."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span

Json = bool | int | float | str | None
"""A JSON value that is neither a list nor an object."""

FixedValue = Json | tuple[Json, ...]
"""A JSON value that is no object; lists are tuples."""


class KeyType(StrEnum):
    """Type of a config key's value."""

    INT = "int"
    FLOAT = "float"
    BOOL = "bool"
    STR = "str"
    IDS = "ids"  # a token id, a list of them, or null


class Role(StrEnum):
    """What a tensor is for. The runtime switches a step on by the presence of its role."""

    EMBEDDING = "embedding"
    FINAL_NORM = "final_norm"
    HEAD = "head"
    HEAD_SCALE = "head_scale"
    ATTN_NORM = "attn_norm"
    ATTN_Q = "attn_q"
    ATTN_K = "attn_k"
    ATTN_V = "attn_v"
    ATTN_O = "attn_o"
    ATTN_Q_BIAS = "attn_q_bias"
    ATTN_K_BIAS = "attn_k_bias"
    ATTN_V_BIAS = "attn_v_bias"
    ATTN_O_BIAS = "attn_o_bias"
    ATTN_Q_SCALE = "attn_q_scale"
    ATTN_K_SCALE = "attn_k_scale"
    ATTN_V_SCALE = "attn_v_scale"
    ATTN_O_SCALE = "attn_o_scale"
    ATTN_Q_NORM = "attn_q_norm"
    ATTN_K_NORM = "attn_k_norm"
    MLP_NORM = "mlp_norm"
    DENSE_GATE = "dense_gate"
    DENSE_UP = "dense_up"
    DENSE_DOWN = "dense_down"
    ROUTER = "router"
    ROUTER_BIAS = "router_bias"
    EXPERT_GATE = "expert_gate"
    EXPERT_UP = "expert_up"
    EXPERT_DOWN = "expert_down"
    EXPERT_GATE_SCALE = "expert_gate_scale"
    EXPERT_UP_SCALE = "expert_up_scale"
    EXPERT_DOWN_SCALE = "expert_down_scale"
    SHARED_GATE = "shared_gate"
    SHARED_UP = "shared_up"
    SHARED_DOWN = "shared_down"
    MTP_EMBEDDING_NORM = "mtp_embedding_norm"
    MTP_HIDDEN_NORM = "mtp_hidden_norm"
    MTP_PROJECTION = "mtp_projection"
    MTP_FINAL_NORM = "mtp_final_norm"
    MTP_EMBEDDING = "mtp_embedding"
    MTP_HEAD = "mtp_head"


MTP_ROLES = (Role.MTP_EMBEDDING_NORM, Role.MTP_HIDDEN_NORM, Role.MTP_PROJECTION, Role.MTP_FINAL_NORM)
"""Roles that a layer which predicts further tokens has beside those of every layer."""

EXPERT_ROLES = frozenset({Role.EXPERT_GATE, Role.EXPERT_UP, Role.EXPERT_DOWN})
MODEL_ROLES = frozenset({Role.EMBEDDING, Role.FINAL_NORM, Role.HEAD, Role.HEAD_SCALE})
"""Roles of the whole network; every other role belongs to layers."""

REQUIRED_ROLES = (
    Role.EMBEDDING,
    Role.FINAL_NORM,
    Role.ATTN_NORM,
    Role.ATTN_Q,
    Role.ATTN_K,
    Role.ATTN_V,
    Role.ATTN_O,
    Role.MLP_NORM,
    Role.ROUTER,
    Role.EXPERT_GATE,
    Role.EXPERT_UP,
    Role.EXPERT_DOWN,
)


@dataclass(frozen=True, slots=True)
class Term:
    """`factor` times the product of the named config keys."""

    factor: int
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Formula:
    """A sum of products over config keys and whole numbers."""

    terms: tuple[Term, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """Every config key in it, in order."""
        return tuple(key for term in self.terms for key in term.keys)


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when the bool key `key` is `value`."""

    key: str
    value: bool


@dataclass(frozen=True, slots=True)
class Key:
    """One key of config.json; `paths` (dots for nesting) are where it may stand."""

    name: str
    paths: tuple[str, ...]
    type: KeyType
    required: bool
    default: Json
    minimum: int | float | None
    maximum: int | float | None
    above: int | float | None
    at_most: Formula | None
    multiple_of: Formula | None
    help: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A config path that may only hold one of `allowed`, or be absent."""

    path: str
    allowed: tuple[FixedValue, ...]
    note: str


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers `first` up to and without `end`; see `strata_runtime.families.LayerGroup`."""

    name: str
    first: Formula
    end: Formula
    optional: bool


@dataclass(frozen=True, slots=True)
class Tensor:
    """Tensors of one role; see `strata_runtime.families.TensorInfo`. It has one name at least."""

    role: Role
    name: str | None
    fused: str | None
    gguf: str | None
    shape: tuple[Formula, ...]
    when: Condition | None
    groups: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Network:
    """What the layers compute, over config keys."""

    vocab_size: Formula
    context_length: Formula
    hidden_size: Formula
    layers: Formula
    heads: Formula
    kv_heads: Formula
    head_dim: Formula
    norm_eps: Formula
    rope_style: str
    rope_theta: Formula
    rope_dim: Formula
    activation: str
    experts: Formula
    experts_per_token: Formula
    expert_width: Formula
    router_scores: str
    router_normalised: Condition
    router_scale: Formula
    eos_ids: str


@dataclass(frozen=True, slots=True)
class Mtp:
    """Layers that predict further tokens; see `strata_runtime.families.MtpInfo`."""

    layers: str
    projection: str


@dataclass(frozen=True, slots=True)
class GgufKey:
    """Where a GGUF file has the value of the config key `name`; see `strata_runtime.families.GgufKey`."""

    name: str
    key: str | None
    default: Json
    minus: str | None
    over: str | None
    zero: Json
    rows: str | None
    present: str | None
    absent: str | None
    value: Json


@dataclass(frozen=True, slots=True)
class GgufRule:
    """What metadata keys may hold, or be absent; see `strata_runtime.families.GgufRule`."""

    keys: tuple[str, ...]
    allowed: tuple[Json, ...]
    equals: Formula | None
    sections: Formula | None
    written: Formula | None
    note: str


@dataclass(frozen=True, slots=True)
class GgufIgnored:
    """Metadata keys and tensors that change nothing, and why."""

    keys: tuple[str, ...]
    tensors: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class Gguf:
    """How the family's checkpoints look in GGUF files. Tensor names are with the tensors."""

    architectures: tuple[str, ...]
    config: tuple[GgufKey, ...]
    rules: tuple[GgufRule, ...]
    ignored: tuple[GgufIgnored, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """One model family."""

    name: str
    title: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    keys: tuple[Key, ...]
    fixed: tuple[Fixed, ...]
    groups: tuple[LayerGroup, ...]
    tensors: tuple[Tensor, ...]
    network: Network
    mtp: Mtp | None
    gguf: Gguf | None
    span: Span

    @property
    def anchor(self) -> str:
        """Anchor in the reference page."""
        return self.name.replace("_", "-")
