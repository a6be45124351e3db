"""Model families as data: what the generated `families.py` of a kernels package is made of, and how it is evaluated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ConfigValue = bool | int | float | str | tuple[int, ...] | None
"""One value of config.json after reading: ids are tuples."""

KeyType = Literal["int", "float", "bool", "str", "ids"]

Layout = Literal["name", "fused", "gguf"]
"""How a checkpoint names its tensors: safetensors with experts one by one or fused, or GGUF. The field that counts."""

EXPERT_ROLES = ("expert_gate", "expert_up", "expert_down")
"""Roles of which every routed expert has a matrix."""

Plain = bool | int | float | str | None
"""A JSON value that is neither a list nor an object."""


@dataclass(frozen=True, slots=True)
class Term:
    """`factor` times the product of the named config keys."""

    factor: int
    keys: tuple[str, ...]

    def __str__(self) -> str:
        factors = ([str(self.factor)] if self.factor != 1 or not self.keys else []) + list(self.keys)
        return " * ".join(factors)


@dataclass(frozen=True, slots=True)
class Formula:
    """A sum of products over config keys and whole numbers, such as `num_attention_heads * head_dim`."""

    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return " + ".join(map(str, self.terms))

    def number(self, config: Mapping[str, ConfigValue]) -> float:
        """Value with the keys replaced by numbers of `config`; an int when all of them are."""
        total: float = 0
        for term in self.terms:
            product: float = term.factor
            for key in term.keys:
                value = config[key]
                assert isinstance(value, int | float)
                product *= value
            total += product
        return total

    def size(self, config: Mapping[str, ConfigValue]) -> int:
        """Value as a size. Raises `ValueError` when it is not whole (a float key may be a factor)."""
        value = self.number(config)
        # 0.1 * 30 is not 3 in binary, yet means it.
        if not math.isfinite(value) or not math.isclose(value, round(value), rel_tol=1e-9):
            raise ValueError(f"{self} is {value}, but it must be a whole number")
        return round(value)


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """One key of config.json. `paths`: where it may stand, dots for nesting, first one first.

    `default` counts when no path is present and the key is not `required`. `at_most` and `multiple_of` relate a number
    to other keys.
    """

    name: str
    paths: tuple[str, ...]
    type: KeyType
    required: bool
    default: ConfigValue
    minimum: int | float | None
    maximum: int | float | None
    above: int | float | None
    at_most: Formula | None
    multiple_of: Formula | None
    help: str


@dataclass(frozen=True, slots=True)
class Fixed:
    """A key that may only have one of `allowed` (JSON values, lists as tuples).

    Anything else would change what the network computes.
    """

    path: str
    allowed: tuple[Plain | tuple[Plain, ...], ...]
    note: str


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds when the bool key `key` is `value`."""

    key: str
    value: bool

    def __str__(self) -> str:
        return self.key if self.value else f"not {self.key}"

    def holds(self, config: Mapping[str, ConfigValue]) -> bool:
        """Whether it holds for `config`."""
        return config[self.key] is self.value


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """Layers `first` up to and without `end`.

    `optional`: a checkpoint has all of the group's tensors or none.
    """

    name: str
    first: Formula
    end: Formula
    optional: bool


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Tensors of one role, by the names that they have in each layout; None: the layout has none of them.

    Names hold `{layer}` when `groups` are given. For routed experts `name` also holds `{expert}`, while `fused` and
    `gguf` are one tensor [experts, rows, columns]; roles that share a `fused` name stand in it one after another, as
    rows. `shape` is that of one expert.
    """

    role: str
    name: str | None
    fused: str | None
    gguf: str | None
    shape: tuple[Formula, ...]
    when: Condition | None
    groups: tuple[str, ...]
    optional: bool

    @property
    def per_expert(self) -> bool:
        """Whether every routed expert has one."""
        return self.role in EXPERT_ROLES

    def named(self, layout: Layout) -> str | None:
        """Its name in a layout. What is never fused has the same name there as everywhere in safetensors."""
        return self.gguf if layout == "gguf" else self.fused or self.name if layout == "fused" else self.name


@dataclass(frozen=True, slots=True)
class NetworkInfo:
    """What the layers compute, over config keys. Steps that depend on a tensor (bias, q/k norm) need no entry here."""

    vocab_size: Formula
    context_length: Formula
    hidden_size: Formula
    layers: Formula
    heads: Formula
    kv_heads: Formula
    head_dim: Formula
    norm_eps: Formula
    rope_style: Literal["half"]
    rope_theta: Formula
    rope_dim: Formula
    activation: Literal["silu"]
    experts: Formula
    experts_per_token: Formula
    expert_width: Formula
    router_scores: Literal["sigmoid", "softmax"]
    router_normalised: Condition
    router_scale: Formula
    eos_ids: str


@dataclass(frozen=True, slots=True)
class MtpInfo:
    """Layers that predict further tokens: the group `layers`, of which drafts use the first.

    Such a layer works on a projection of [embedding of a token ; state of the token before it] (`embedding_first`),
    each under a norm of its own.
    """

    layers: str
    projection: Literal["embedding_first"]


@dataclass(frozen=True, slots=True)
class GgufKey:
    """Where a GGUF file has the value of the config key `name`.

    `key`: a metadata key, without the architecture's name before it unless it begins with `tokenizer.`. Its number is
    `zero` instead of 0 when that is given, then reduced by the config key `minus` and divided by `over`; without the
    metadata key the value is `default`, and it must be there when that is None. Or instead of `key`: the `rows` of a
    tensor, whether a tensor is `present` or `absent`, or a fixed `value`.
    """

    name: str
    key: str | None
    default: ConfigValue
    minus: str | None
    over: str | None
    zero: ConfigValue
    rows: str | None
    present: str | None
    absent: str | None
    value: ConfigValue


@dataclass(frozen=True, slots=True)
class GgufRule:
    """Metadata keys that may be absent, or hold one of `allowed` or what `equals` says; every item of an array must.

    `sections` bounds rope sections instead: those whose positions are those of text must cover so many elements of a
    head (two for each pair), or be followed by none. `written`: what a file that is made holds there, None: nothing.
    """

    keys: tuple[str, ...]
    allowed: tuple[Plain, ...]
    equals: Formula | None
    sections: Formula | None
    written: Formula | None
    note: str


@dataclass(frozen=True, slots=True)
class GgufIgnored:
    """Metadata keys (`x.*`: all below x) and tensors (names with `{layer}`) that change nothing, and why."""

    keys: tuple[str, ...]
    tensors: tuple[str, ...]
    note: str


@dataclass(frozen=True, slots=True)
class GgufInfo:
    """A family in GGUF files, by `general.architecture`. Every key of the architecture is in one of the three."""

    architectures: tuple[str, ...]
    config: tuple[GgufKey, ...]
    rules: tuple[GgufRule, ...]
    ignored: tuple[GgufIgnored, ...]


@dataclass(frozen=True, slots=True)
class FamilyInfo:
    """One model family. `gguf` is None when its checkpoints are not read from GGUF files, `mtp` without such layers."""

    name: str
    title: str
    model_types: tuple[str, ...]
    architectures: tuple[str, ...]
    keys: tuple[KeyInfo, ...]
    fixed: tuple[Fixed, ...]
    groups: tuple[LayerGroup, ...]
    tensors: tuple[TensorInfo, ...]
    network: NetworkInfo
    mtp: MtpInfo | None = None
    gguf: GgufInfo | None = None

    def group(self, name: str) -> LayerGroup:
        """Layer group by name."""
        return next(group for group in self.groups if group.name == name)
