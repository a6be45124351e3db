"""From the edge to the model: formulas, and what the spec of one family can get wrong."""

from __future__ import annotations

import re
from collections.abc import Iterator

from strata_gen.diagnostics import Sink, did_you_mean
from strata_gen.edge.family_base import NUMBERS, FamilyPart, plain
from strata_gen.edge.family_edge import FamilyFile, KeyEdge, TensorEdge
from strata_gen.edge.family_gguf import convert_gguf
from strata_gen.load.document import DataPath, Document
from strata_gen.model.family import (
    EXPERT_ROLES,
    MODEL_ROLES,
    MTP_ROLES,
    REQUIRED_ROLES,
    Family,
    Fixed,
    FixedValue,
    Json,
    Key,
    KeyType,
    LayerGroup,
    Mtp,
    Network,
    Role,
    Tensor,
)

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")


def _plain(value: Json | list[Json]) -> FixedValue:
    return tuple(map(plain, value)) if isinstance(value, list) else plain(value)


def _placeholders(role: Role, place: str) -> set[str]:
    """What a name of a tensor of `role` holds: experts are stored one by one under their `name` alone."""
    wanted = {"layer"} if role not in MODEL_ROLES else set()
    return wanted | ({"expert"} if role in EXPERT_ROLES and place == "name" else set())


class _Converter(FamilyPart):
    """Converts one family."""

    __slots__ = ()

    # --- config

    def default(self, edge: KeyEdge, path: DataPath) -> Json:
        given = edge.default
        if edge.required and given is not None:
            self.error("M023", f"config key '{edge.name}' is required, so its default never counts", (*path, "default"))
        if not edge.required and given is None and edge.type is not KeyType.IDS:
            self.error("M024", f"config key '{edge.name}' is neither required nor has it a default", (*path, "name"))
        return self.typed(given, edge.type, edge.name, (*path, "default"))

    def key(self, edge: KeyEdge, path: DataPath) -> Key:
        limits = edge.range
        related = (edge.at_most, edge.multiple_of, limits.min, limits.max, limits.above)
        if edge.type not in NUMBERS and any(limit is not None for limit in related):
            self.error("M026", f"config key '{edge.name}' is {edge.type}: only numbers have bounds", (*path, "type"))
        return Key(
            name=edge.name,
            paths=tuple(edge.paths or (edge.name,)),
            type=edge.type,
            required=edge.required,
            default=self.default(edge, path),
            minimum=plain(limits.min),
            maximum=plain(limits.max),
            above=plain(limits.above),
            at_most=self.maybe(edge.at_most, (*path, "at_most")),
            multiple_of=self.maybe(edge.multiple_of, (*path, "multiple_of")),
            help=edge.help,
        )

    # --- tensors

    def groups(self) -> Iterator[LayerGroup]:
        for index, edge in enumerate(self.edge.layers):
            first = self.formula(edge.first, ("layers", index, "first"))
            end = self.formula(edge.end, ("layers", index, "end"))
            yield LayerGroup(edge.name, first, end, edge.optional)

    def check_names(self, edge: TensorEdge, path: DataPath) -> None:
        names = {"name": edge.name, "fused": edge.fused, "gguf": edge.gguf}
        if edge.name is None and edge.gguf is None:
            self.error("M036", f"the tensor of role '{edge.role}' has no name", (*path, "role"))
        if edge.fused is not None and edge.role not in EXPERT_ROLES:
            self.error("M027", f"only experts are fused, not '{edge.role}'", (*path, "fused"))
        for place, name in names.items():
            found = _PLACEHOLDER.findall(name or "")
            wanted = _placeholders(edge.role, place)
            if name is not None and (set(found) != wanted or len(found) != len(wanted)):
                words = " and ".join(f"{{{word}}}" for word in sorted(wanted, reverse=True)) or "no placeholder"
                self.error("M027", f"the {place} of a tensor of role '{edge.role}' holds {words}", (*path, place))
        if (edge.layers is None) != (edge.role in MODEL_ROLES):
            needs = "belongs to no layer" if edge.role in MODEL_ROLES else "names its layers"
            self.error("M028", f"a tensor of role '{edge.role}' {needs}", path)

    def check_group(self, name: str, path: DataPath) -> bool:
        known = [group.name for group in self.edge.layers]
        if name not in known:
            self.error("M029", f"unknown group of layers '{name}'", path, did_you_mean(name, known))
        return name in known

    def mtp(self) -> Mtp | None:
        edge, path = self.edge.mtp, ("mtp", "layers")
        if edge is None:
            return None
        if self.check_group(edge.layers, path):
            roles = {tensor.role for tensor in self.edge.tensors if edge.layers in (tensor.layers or ())}
            missing = [role for role in MTP_ROLES if role not in roles]
            if missing:
                self.error("M038", f"layers '{edge.layers}' have no tensor of role {', '.join(missing)}", path)
        return Mtp(edge.layers, edge.projection)

    def tensor(self, edge: TensorEdge, path: DataPath) -> Tensor:
        self.check_names(edge, path)
        for index, group in enumerate(edge.layers or ()):
            self.check_group(group, (*path, "layers", index))
        return Tensor(
            role=edge.role,
            name=edge.name,
            fused=edge.fused,
            gguf=edge.gguf,
            shape=tuple(self.formula(size, (*path, "shape", index)) for index, size in enumerate(edge.shape)),
            when=None if edge.when is None else self.condition(edge.when, (*path, "when")),
            groups=tuple(edge.layers or ()),
            optional=edge.optional,
        )

    def check_roles(self) -> None:
        places = {"": {edge.role for edge in self.edge.tensors if edge.name is not None}}
        if self.edge.gguf is not None:
            places[" in GGUF files"] = {edge.role for edge in self.edge.tensors if edge.gguf is not None}
        for place, roles in places.items():
            missing = [role for role in REQUIRED_ROLES if role not in roles]
            if missing:
                self.error("M030", f"no tensor{place} has the role {', '.join(missing)}", ("tensors",))

    # --- the whole

    def network(self) -> Network:
        edge, at = self.edge.network, ("network",)
        self.check_key(edge.eos_ids, (KeyType.IDS,), (*at, "eos_ids"))
        plain = ("vocab_size", "context_length", "hidden_size", "layers", "heads", "kv_heads", "head_dim", "norm_eps")
        return Network(
            **{name: self.formula(getattr(edge, name), (*at, name)) for name in plain},
            rope_style=edge.rope.style,
            rope_theta=self.formula(edge.rope.theta, (*at, "rope", "theta")),
            rope_dim=self.formula(edge.rope.dim, (*at, "rope", "dim")),
            activation=edge.activation,
            experts=self.formula(edge.experts.count, (*at, "experts", "count")),
            experts_per_token=self.formula(edge.experts.per_token, (*at, "experts", "per_token")),
            expert_width=self.formula(edge.experts.width, (*at, "experts", "width")),
            router_scores=edge.router.scores,
            router_normalised=self.condition(edge.router.normalised, (*at, "router", "normalised")),
            router_scale=self.formula(edge.router.scale, (*at, "router", "scale")),
            eos_ids=edge.eos_ids,
        )

    def family(self) -> Family:
        edge = self.edge
        self.check_repeats("config key", (key.name for key in edge.config), ("config",))
        self.check_repeats("group of layers", (group.name for group in edge.layers), ("layers",))
        for place in ("name", "gguf"):
            self.check_repeats("tensor", (getattr(tensor, place) for tensor in edge.tensors), ("tensors",))
        self.check_repeats("role", (tensor.role for tensor in edge.tensors), ("tensors",))
        self.check_roles()
        return Family(
            name=edge.name,
            title=edge.title,
            model_types=tuple(edge.model_types),
            architectures=tuple(edge.architectures),
            keys=tuple(self.key(key, ("config", index)) for index, key in enumerate(edge.config)),
            fixed=tuple(Fixed(f.path, tuple(map(_plain, f.allowed)), f.note) for f in edge.fixed),
            groups=tuple(self.groups()),
            tensors=tuple(self.tensor(tensor, ("tensors", index)) for index, tensor in enumerate(edge.tensors)),
            network=self.network(),
            mtp=self.mtp(),
            gguf=convert_gguf(self),
            span=self.document.at(*self.at, "name"),
        )


def convert_file(edge: FamilyFile, document: Document, sink: Sink) -> tuple[Family, ...]:
    """Convert every family of one file; findings go to `sink`."""
    return tuple(
        _Converter(family, document, sink, ("families", index)).family() for index, family in enumerate(edge.families)
    )
