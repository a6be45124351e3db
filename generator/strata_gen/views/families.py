"""Views of the families: the Python tables of a kernels package."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.family import (
    Condition,
    Family,
    Fixed,
    Formula,
    GgufIgnored,
    GgufKey,
    GgufRule,
    Key,
    KeyType,
    LayerGroup,
    Tensor,
)
from strata_gen.resolve import Plan

TEMPLATE = "families.py.j2"


@dataclass(frozen=True, slots=True)
class GgufView:
    """The family in GGUF files; every item of the tuples is a Python expression."""

    architectures: str
    config: tuple[str, ...]
    rules: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FamilyView:
    """One family; every item of the tuples is a Python expression. `mtp` and `gguf`: one item, or none."""

    name: str
    title: str
    model_types: str
    architectures: str
    keys: tuple[str, ...]
    fixed: tuple[str, ...]
    groups: tuple[str, ...]
    tensors: tuple[str, ...]
    network: tuple[str, ...]
    mtp: tuple[str, ...]
    gguf: tuple[GgufView, ...]


@dataclass(frozen=True, slots=True)
class FamiliesView:
    """What `families.py` holds."""

    families: tuple[FamilyView, ...]


def _tuple(items: Iterable[str]) -> str:
    listed = list(items)
    return f"({', '.join(listed)}{',' if len(listed) == 1 else ''})"


def _words(items: Iterable[str]) -> str:
    return _tuple(repr(str(item)) for item in items)


def _formula(formula: Formula) -> str:
    return f"Formula({_tuple(f'Term({term.factor}, {_words(term.keys)})' for term in formula.terms)})"


def _maybe(formula: Formula | None) -> str:
    return "None" if formula is None else _formula(formula)


def _condition(condition: Condition | None) -> str:
    return "None" if condition is None else f"Condition({condition.key!r}, {condition.value})"


def _default(key: Key) -> str:
    if key.type == "ids":
        return "()" if key.default is None else f"({key.default},)"
    return repr(key.default)


def _key(key: Key) -> str:
    return (
        f"KeyInfo({key.name!r}, {_words(key.paths)}, {str(key.type)!r}, {key.required}, {_default(key)}, "
        f"{key.minimum!r}, {key.maximum!r}, {key.above!r}, {_maybe(key.at_most)}, {_maybe(key.multiple_of)}, "
        f"{key.help!r})"
    )


def _fixed(fixed: Fixed) -> str:
    return f"Fixed({fixed.path!r}, {_tuple(map(repr, fixed.allowed))}, {fixed.note!r})"


def _group(group: LayerGroup) -> str:
    bounds = f"{_formula(group.first)}, {_formula(group.end)}"
    return f"LayerGroup({group.name!r}, {bounds}, optional={group.optional})"


def _tensor(tensor: Tensor) -> str:
    return (
        f"TensorInfo({str(tensor.role)!r}, {tensor.name!r}, {tensor.fused!r}, {tensor.gguf!r}, "
        f"{_tuple(map(_formula, tensor.shape))}, {_condition(tensor.when)}, {_words(tensor.groups)}, {tensor.optional})"
    )


def _network(family: Family) -> tuple[str, ...]:
    def text(value: object) -> str:
        if isinstance(value, Formula):
            return _formula(value)
        return _condition(value) if isinstance(value, Condition) else repr(value)

    network = family.network
    return tuple(f"{name}={text(getattr(network, name))}" for name in network.__slots__)


def _gguf_key(key: GgufKey, kind: KeyType) -> str:
    default = "()" if kind is KeyType.IDS and key.default is None else repr(key.default)
    return (
        f"GgufKey({key.name!r}, {key.key!r}, {default}, {key.minus!r}, {key.over!r}, {key.zero!r}, {key.rows!r}, "
        f"{key.present!r}, {key.absent!r}, {key.value!r})"
    )


def _gguf_rule(rule: GgufRule) -> str:
    return (
        f"GgufRule({_words(rule.keys)}, {_tuple(map(repr, rule.allowed))}, {_maybe(rule.equals)}, "
        f"{_maybe(rule.sections)}, {_maybe(rule.written)}, {rule.note!r})"
    )


def _gguf_ignored(ignored: GgufIgnored) -> str:
    return f"GgufIgnored({_words(ignored.keys)}, {_words(ignored.tensors)}, {ignored.note!r})"


def _gguf(family: Family) -> tuple[GgufView, ...]:
    if family.gguf is None:
        return ()
    kinds = {key.name: key.type for key in family.keys}
    return (
        GgufView(
            architectures=_words(family.gguf.architectures),
            config=tuple(_gguf_key(key, kinds[key.name]) for key in family.gguf.config),
            rules=tuple(map(_gguf_rule, family.gguf.rules)),
            ignored=tuple(map(_gguf_ignored, family.gguf.ignored)),
        ),
    )


def _mtp(family: Family) -> tuple[str, ...]:
    mtp = family.mtp
    return () if mtp is None else (f"MtpInfo({mtp.layers!r}, {mtp.projection!r})",)


def family_view(family: Family) -> FamilyView:
    """Return the view of one family."""
    return FamilyView(
        name=repr(family.name),
        title=repr(family.title),
        model_types=_words(family.model_types),
        architectures=_words(family.architectures),
        keys=tuple(map(_key, family.keys)),
        fixed=tuple(map(_fixed, family.fixed)),
        groups=tuple(map(_group, family.groups)),
        tensors=tuple(map(_tensor, family.tensors)),
        network=_network(family),
        mtp=_mtp(family),
        gguf=_gguf(family),
    )


def _views(plan: Plan) -> tuple[tuple[str, FamiliesView], ...]:
    return (("python/families.py", FamiliesView(tuple(map(family_view, plan.specs.families)))),)


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(family.span.file for family in plan.specs.families)


EMITTERS = (Emitter(TEMPLATE, _views, _sources),)
