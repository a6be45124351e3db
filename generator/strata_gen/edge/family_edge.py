"""Families at the edge: the shape of `specs/models/*.yaml`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata_gen.edge.base import Edge, Text
from strata_gen.model.family import KeyType, Role

_LAX = Field(strict=False)  # YAML has words, not enum members

KeyTypeName = Annotated[KeyType, _LAX]
RoleName = Annotated[Role, _LAX]
JsonValue = StrictBool | StrictInt | StrictFloat | StrictStr | None
FixedValue = JsonValue | list[JsonValue]
KeyName = Annotated[Text, Field(pattern=r"^[a-z][a-z0-9_]*$")]
PathText = Annotated[Text, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)*$")]
MetadataPattern = Annotated[Text, Field(pattern=r"^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*(\.\*)?$")]


def _number_as_text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


FormulaText = Annotated[str, BeforeValidator(_number_as_text)]
"""A sum of products over config keys and whole numbers: `2 * hidden_size + 1`."""

TensorName = Annotated[Text, Field(min_length=1)]

ConditionText = Annotated[Text, Field(pattern=r"^(not )?[a-z][a-z0-9_]*$")]


class RangeEdge(Edge):
    """Bounds of a number; `above` excludes the bound itself."""

    min: int | float | None = None
    max: int | float | None = None
    above: int | float | None = None


class KeyEdge(Edge):
    """One key of config.json."""

    name: KeyName
    type: KeyTypeName
    help: Annotated[Text, Field(min_length=1)]
    paths: Annotated[list[PathText], Field(min_length=1)] | None = None
    required: bool = False
    default: JsonValue = None
    range: RangeEdge = RangeEdge()
    at_most: FormulaText | None = None
    multiple_of: FormulaText | None = None


class FixedEdge(Edge):
    """A config path that may only hold one of `allowed`, or be absent."""

    path: PathText
    allowed: Annotated[list[FixedValue], Field(min_length=1)]
    note: Annotated[Text, Field(min_length=1)]


class LayersEdge(Edge):
    """A group of layers, from `first` up to and without `end`."""

    name: KeyName
    first: FormulaText
    end: FormulaText
    optional: bool = False


class TensorEdge(Edge):
    """The tensors of one role: `name` in safetensors, `fused` there too when experts are stacked, `gguf` in GGUF."""

    role: RoleName
    name: TensorName | None = None
    fused: TensorName | None = None
    gguf: TensorName | None = None
    shape: Annotated[list[FormulaText], Field(min_length=1, max_length=2)]
    layers: Annotated[list[Text], Field(min_length=1)] | None = None
    when: ConditionText | None = None
    optional: bool = False


class RopeEdge(Edge):
    """Rotary positions: `half` rotates element i with element i + dim / 2 of a head's first `dim` elements."""

    style: Literal["half"]
    theta: FormulaText
    dim: FormulaText


class ExpertsEdge(Edge):
    """Routed experts of one layer."""

    count: FormulaText
    per_token: FormulaText
    width: FormulaText


class RouterEdge(Edge):
    """How experts are chosen and weighted. `normalised` names a bool key."""

    scores: Literal["sigmoid", "softmax"]
    normalised: ConditionText
    scale: FormulaText


class NetworkEdge(Edge):
    """What the layers compute, over config keys."""

    vocab_size: FormulaText
    context_length: FormulaText
    hidden_size: FormulaText
    layers: FormulaText
    heads: FormulaText
    kv_heads: FormulaText
    head_dim: FormulaText
    norm_eps: FormulaText
    rope: RopeEdge
    activation: Literal["silu"]
    experts: ExpertsEdge
    router: RouterEdge
    eos_ids: KeyName


class MtpEdge(Edge):
    """Layers that predict further tokens: `layers` names their group, which stands behind the network's own layers.

    Such a layer works on the projection of the embedding of a token and the state of the token before it, each under a
    norm of its own, in the order that `projection` says.
    """

    layers: Text
    projection: Literal["embedding_first"]


class GgufKeyEdge(Edge):
    """Where a GGUF file has the value of a config key.

    `key`: a metadata key of the architecture, or a whole one that begins with `tokenizer.`; `default` counts when it is
    absent. `minus` and `over` name config keys to subtract and to divide by, `zero` what a stored 0 means. Or instead
    of `key`: `rows` of a tensor, whether a tensor is `present` or `absent`, a fixed `value`.
    """

    name: KeyName
    key: PathText | None = None
    default: JsonValue = None
    minus: KeyName | None = None
    over: KeyName | None = None
    zero: JsonValue = None
    rows: TensorName | None = None
    present: TensorName | None = None
    absent: TensorName | None = None
    value: JsonValue = None


class GgufRuleEdge(Edge):
    """Metadata keys that may be absent, hold one of `allowed`, or what `equals` says; anything else is refused.

    Every item of an array is held to it. `sections`: pairs that are rotated, which rope sections of text must cover.
    `written`: what conversion to GGUF writes there, a whole number that the rule allows; nothing unless it is given.
    """

    keys: Annotated[list[PathText], Field(min_length=1)]
    allowed: Annotated[list[JsonValue], Field(default_factory=list)]
    equals: FormulaText | None = None
    sections: FormulaText | None = None
    written: FormulaText | None = None
    note: Annotated[Text, Field(min_length=1)]


class GgufIgnoredEdge(Edge):
    """Metadata keys (`x.*` for all below `x`) and tensors that change nothing, and why."""

    keys: Annotated[list[MetadataPattern], Field(default_factory=list)]
    tensors: Annotated[list[TensorName], Field(default_factory=list)]
    note: Annotated[Text, Field(min_length=1)]


class GgufEdge(Edge):
    """The family in GGUF files. Metadata keys are written without the architecture's name before them."""

    architectures: Annotated[list[Text], Field(min_length=1)]
    config: Annotated[list[GgufKeyEdge], Field(min_length=1)]
    rules: Annotated[list[GgufRuleEdge], Field(default_factory=list)]
    ignored: Annotated[list[GgufIgnoredEdge], Field(default_factory=list)]


class FamilyEdge(Edge):
    """One model family."""

    name: KeyName
    title: Annotated[Text, Field(min_length=1)]
    model_types: Annotated[list[Text], Field(min_length=1)]
    architectures: Annotated[list[Text], Field(min_length=1)]
    config: Annotated[list[KeyEdge], Field(min_length=1)]
    fixed: Annotated[list[FixedEdge], Field(default_factory=list)]
    layers: Annotated[list[LayersEdge], Field(min_length=1)]
    network: NetworkEdge
    mtp: MtpEdge | None = None
    tensors: Annotated[list[TensorEdge], Field(min_length=1)]
    gguf: GgufEdge | None = None


class FamilyFile(Edge):
    """One file of families."""

    families: Annotated[list[FamilyEdge], Field(min_length=1)]
