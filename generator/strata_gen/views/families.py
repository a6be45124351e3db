"""Views of the families: the Python tables of a kernels package, and the reference page."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.family import Condition, Family, Fixed, Formula, Key, LayerGroup, Tensor, Term
from strata_gen.resolve import Plan

TEMPLATE = "families.py.j2"
PAGE_TEMPLATE = "families.md.j2"


@dataclass(frozen=True, slots=True)
class FamilyView:
    """One family; every item of the tuples is a Python expression."""

    name: str
    title: str
    model_types: str
    architectures: str
    keys: tuple[str, ...]
    fixed: tuple[str, ...]
    groups: tuple[str, ...]
    tensors: tuple[str, ...]
    network: tuple[str, ...]


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
    return f"LayerGroup({group.name!r}, {bounds}, loaded={group.loaded}, optional={group.optional})"


def _tensor(tensor: Tensor) -> str:
    return (
        f"TensorInfo({tensor.name!r}, {str(tensor.role)!r}, {_tuple(map(_formula, tensor.shape))}, "
        f"{_words(tensor.dtypes)}, {_condition(tensor.when)}, {_words(tensor.groups)}, {tensor.optional})"
    )


def _network(family: Family) -> tuple[str, ...]:
    def text(value: object) -> str:
        if isinstance(value, Formula):
            return _formula(value)
        return _condition(value) if isinstance(value, Condition) else repr(value)

    network = family.network
    return tuple(f"{name}={text(getattr(network, name))}" for name in network.__slots__)


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
    )


def _views(plan: Plan) -> tuple[tuple[str, FamiliesView], ...]:
    return (("python/families.py", FamiliesView(tuple(map(family_view, plan.specs.families)))),)


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(family.span.file for family in plan.specs.families)


EMITTERS = (Emitter(TEMPLATE, _views, _sources),)


@dataclass(frozen=True, slots=True)
class KeyRow:
    """A row of the page's table of config keys."""

    name: str
    type: str
    default: str
    bounds: str
    help: str


@dataclass(frozen=True, slots=True)
class TensorRow:
    """A row of the page's table of tensors."""

    name: str
    role: str
    shape: str
    layers: str
    when: str


@dataclass(frozen=True, slots=True)
class FamilyPage:
    """One family in the reference page."""

    name: str
    title: str
    anchor: str
    model_types: str
    architectures: str
    keys: tuple[KeyRow, ...]
    fixed: tuple[str, ...]
    groups: tuple[str, ...]
    tensors: tuple[TensorRow, ...]


@dataclass(frozen=True, slots=True)
class FamiliesPage:
    """The reference page of families."""

    families: tuple[FamilyPage, ...]


def formula_text(formula: Formula) -> str:
    """Return a formula as it is written in a spec."""

    def product(term: Term) -> str:
        return " * ".join(([str(term.factor)] if term.factor != 1 or not term.keys else []) + list(term.keys))

    return " + ".join(map(product, formula.terms))


def _bounds(key: Key) -> str:
    parts = [
        f"at least {key.minimum}" if key.minimum is not None else "",
        f"above {key.above}" if key.above is not None else "",
        f"at most {key.maximum}" if key.maximum is not None else "",
        f"at most `{formula_text(key.at_most)}`" if key.at_most else "",
        f"a multiple of `{formula_text(key.multiple_of)}`" if key.multiple_of else "",
    ]
    return ", ".join(part for part in parts if part)


def _key_row(key: Key) -> KeyRow:
    default = "required" if key.required else "none" if key.default is None else f"`{json.dumps(key.default)}`"
    return KeyRow(" or ".join(f"`{path}`" for path in key.paths), str(key.type), default, _bounds(key), key.help)


def _tensor_row(tensor: Tensor) -> TensorRow:
    when = "" if tensor.when is None else f"`{'' if tensor.when.value else 'not '}{tensor.when.key}`"
    return TensorRow(
        name=tensor.name,
        role=str(tensor.role),
        shape=", ".join(map(formula_text, tensor.shape)),
        layers=", ".join(tensor.groups) or "-",
        when=when or ("may be absent" if tensor.optional else "always"),
    )


def _group_line(group: LayerGroup) -> str:
    notes = ["" if group.loaded else "checked, not used yet", "may be absent" if group.optional else ""]
    note = "; ".join(part for part in notes if part)
    line = f"`{group.name}`: from `{formula_text(group.first)}` up to and without `{formula_text(group.end)}`"
    return f"{line} ({note})" if note else line


def families_page(families: Iterable[Family]) -> FamiliesPage:
    """Return the view of the reference page."""
    return FamiliesPage(
        tuple(
            FamilyPage(
                name=family.name,
                title=family.title,
                anchor=family.anchor,
                model_types=", ".join(f"`{name}`" for name in family.model_types),
                architectures=", ".join(f"`{name}`" for name in family.architectures),
                keys=tuple(map(_key_row, family.keys)),
                fixed=tuple(
                    f"`{fixed.path}`: {', '.join(f'`{json.dumps(v)}`' for v in fixed.allowed)} ({fixed.note})"
                    for fixed in family.fixed
                ),
                groups=tuple(map(_group_line, family.groups)),
                tensors=tuple(map(_tensor_row, family.tensors)),
            )
            for family in families
        )
    )
