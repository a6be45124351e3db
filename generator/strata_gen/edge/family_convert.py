"""From the edge to the model: formulas, and what the spec of one family can get wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.edge.family_edge import FamilyEdge, FamilyFile, KeyEdge, TensorEdge
from strata_gen.edge.formula import parse_condition, parse_formula
from strata_gen.load.document import DataPath, Document
from strata_gen.load.scalars import WrittenFloat, WrittenInt
from strata_gen.model.family import (
    EXPERT_ROLES,
    MODEL_ROLES,
    REQUIRED_ROLES,
    Condition,
    Family,
    Fixed,
    Formula,
    Json,
    Key,
    KeyType,
    LayerGroup,
    Network,
    Tensor,
)

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_NUMBERS = (KeyType.INT, KeyType.FLOAT)


@dataclass(frozen=True, slots=True)
class _Converter:
    """Converts one family; `document` gives the spans, `sink` takes the findings, `at` is the family's place."""

    edge: FamilyEdge
    document: Document
    sink: Sink
    at: DataPath

    def error(self, number: str, message: str, path: DataPath, label: str = "", notes: tuple[Note, ...] = ()) -> None:
        where = self.document.at(*self.at, *path)
        self.sink.error(f"M{number}", f"{message} in family '{self.edge.name}'", where, label, notes)

    # --- formulas and conditions

    def formula(self, text: str, path: DataPath) -> Formula:
        try:
            formula = parse_formula(text)
        except ValueError as problem:
            self.error("020", str(problem), path)
            return Formula(())
        for key in formula.keys:
            self.check_key(key, _NUMBERS, path)
        return formula

    def condition(self, text: str, path: DataPath) -> Condition:
        condition = parse_condition(text)
        self.check_key(condition.key, (KeyType.BOOL,), path)
        return condition

    def check_key(self, name: str, types: Sequence[KeyType], path: DataPath) -> None:
        known = {key.name: key for key in self.edge.config}
        if name not in known:
            self.error("021", f"unknown config key '{name}'", path, did_you_mean(name, known))
        elif known[name].type not in types:
            self.error("022", f"config key '{name}' is {known[name].type}, not {' or '.join(types)}", path)

    # --- config

    def default(self, edge: KeyEdge, path: DataPath) -> Json:
        given = edge.default
        if edge.required and given is not None:
            self.error("023", f"config key '{edge.name}' is required, so its default never counts", (*path, "default"))
        if not edge.required and given is None and edge.type is not KeyType.IDS:
            self.error("024", f"config key '{edge.name}' is neither required nor has it a default", (*path, "name"))
        fits: dict[KeyType, tuple[type, ...]] = {
            KeyType.INT: (int,),
            KeyType.FLOAT: (int, float),
            KeyType.BOOL: (bool,),
            KeyType.STR: (str,),
            KeyType.IDS: (int,),
        }
        wrong_bool = isinstance(given, bool) and edge.type is not KeyType.BOOL
        if given is not None and (wrong_bool or not isinstance(given, fits[edge.type])):
            self.error("025", f"default of config key '{edge.name}' is not {edge.type}", (*path, "default"))
            return None
        # Numbers of the loader remember their text; the model holds plain ones.
        if edge.type is KeyType.FLOAT and isinstance(given, int | float):
            return float(given)
        return int(given) if isinstance(given, int) and not isinstance(given, bool) else given

    def key(self, edge: KeyEdge, path: DataPath) -> Key:
        limits = edge.range
        related = (edge.at_most, edge.multiple_of, limits.min, limits.max, limits.above)
        if edge.type not in _NUMBERS and any(limit is not None for limit in related):
            self.error("026", f"config key '{edge.name}' is {edge.type}: only numbers have bounds", (*path, "type"))
        return Key(
            name=edge.name,
            paths=tuple(edge.paths or (edge.name,)),
            type=edge.type,
            required=edge.required,
            default=self.default(edge, path),
            minimum=_plain(limits.min),
            maximum=_plain(limits.max),
            above=_plain(limits.above),
            at_most=None if edge.at_most is None else self.formula(edge.at_most, (*path, "at_most")),
            multiple_of=None if edge.multiple_of is None else self.formula(edge.multiple_of, (*path, "multiple_of")),
            help=edge.help,
        )

    # --- tensors

    def groups(self) -> Iterator[LayerGroup]:
        for index, edge in enumerate(self.edge.layers):
            first = self.formula(edge.first, ("layers", index, "first"))
            end = self.formula(edge.end, ("layers", index, "end"))
            yield LayerGroup(edge.name, first, end, edge.loaded, edge.optional)

    def check_name(self, edge: TensorEdge, path: DataPath) -> None:
        wanted = {"layer"} if edge.role not in MODEL_ROLES else set()
        wanted |= {"expert"} if edge.role in EXPERT_ROLES else set()
        found = _PLACEHOLDER.findall(edge.name)
        if set(found) != wanted or len(found) != len(wanted):
            words = " and ".join(f"{{{name}}}" for name in sorted(wanted, reverse=True)) or "no placeholder"
            self.error("027", f"the name of a tensor of role '{edge.role}' holds {words}", (*path, "name"))
        if (edge.layers is not None) != ("layer" in wanted):
            needs = "names its layers" if "layer" in wanted else "belongs to no layer"
            self.error("028", f"a tensor of role '{edge.role}' {needs}", path)

    def tensor(self, edge: TensorEdge, path: DataPath) -> Tensor:
        self.check_name(edge, path)
        known = [group.name for group in self.edge.layers]
        for index, group in enumerate(edge.layers or ()):
            if group not in known:
                where: DataPath = (*path, "layers", index)
                self.error("029", f"unknown group of layers '{group}'", where, did_you_mean(group, known))
        return Tensor(
            name=edge.name,
            role=edge.role,
            shape=tuple(self.formula(size, (*path, "shape", index)) for index, size in enumerate(edge.shape)),
            dtypes=tuple(edge.dtypes),
            when=None if edge.when is None else self.condition(edge.when, (*path, "when")),
            groups=tuple(edge.layers or ()),
            optional=edge.optional,
        )

    def check_roles(self) -> None:
        missing = [role for role in REQUIRED_ROLES if role not in {edge.role for edge in self.edge.tensors}]
        if missing:
            self.error("030", f"no tensor has the role {', '.join(missing)}", ("tensors",))

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

    def check_repeats(self, what: str, values: Iterable[str], path: DataPath) -> None:
        first: dict[str, int] = {}
        for index, value in enumerate(values):
            if value in first:
                note = Note("first given here", self.document.at(*self.at, *path, first[value]))
                self.error("031", f"{what} '{value}' is given twice", (*path, index), notes=(note,))
            first.setdefault(value, index)

    def family(self) -> Family:
        edge = self.edge
        self.check_repeats("config key", (key.name for key in edge.config), ("config",))
        self.check_repeats("group of layers", (group.name for group in edge.layers), ("layers",))
        self.check_repeats("tensor", (tensor.name for tensor in edge.tensors), ("tensors",))
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
            span=self.document.at(*self.at, "name"),
        )


@overload
def _plain(value: float | None) -> float | None: ...
@overload
def _plain(value: Json) -> Json: ...
def _plain(value: Json) -> Json:
    """Strip the remembered text from a number of the loader."""
    if isinstance(value, WrittenInt):
        return int(value)
    return float(value) if isinstance(value, WrittenFloat) else value


def convert_file(edge: FamilyFile, document: Document, sink: Sink) -> tuple[Family, ...]:
    """Convert every family of one file; findings go to `sink`."""
    return tuple(
        _Converter(family, document, sink, ("families", index)).family() for index, family in enumerate(edge.families)
    )
