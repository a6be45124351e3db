"""View of the reference page of families."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from strata_gen.model.family import Family, Formula, Gguf, GgufKey, GgufRule, Key, LayerGroup, Mtp, Tensor, Term

PAGE_TEMPLATE = "families.md.j2"


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
    """A row of the page's table of tensors; `name` holds the one of fused experts too."""

    role: str
    name: str
    gguf: str
    shape: str
    layers: str
    when: str


@dataclass(frozen=True, slots=True)
class GgufPage:
    """What the page says of GGUF files: (config key, where it is) rows, and lines."""

    architectures: str
    config: tuple[tuple[str, str], ...]
    rules: tuple[str, ...]
    ignored: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FamilyPage:
    """One family in the reference page. `gguf`: one item, or none."""

    name: str
    title: str
    anchor: str
    model_types: str
    architectures: str
    keys: tuple[KeyRow, ...]
    fixed: tuple[str, ...]
    groups: tuple[str, ...]
    tensors: tuple[TensorRow, ...]
    gguf: tuple[GgufPage, ...]


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
        role=str(tensor.role),
        name=" or ".join(f"`{name}`" for name in (tensor.name, tensor.fused) if name is not None) or "-",
        gguf="-" if tensor.gguf is None else f"`{tensor.gguf}`",
        shape=", ".join(map(formula_text, tensor.shape)),
        layers=", ".join(tensor.groups) or "-",
        when=when or ("may be absent" if tensor.optional else "always"),
    )


def _group_line(group: LayerGroup, mtp: Mtp | None) -> str:
    predicts = mtp is not None and mtp.layers == group.name
    notes = ["predicts further tokens, for drafts" if predicts else "", "may be absent" if group.optional else ""]
    note = "; ".join(part for part in notes if part)
    line = f"`{group.name}`: from `{formula_text(group.first)}` up to and without `{formula_text(group.end)}`"
    return f"{line} ({note})" if note else line


def _gguf_place(key: GgufKey) -> str:
    if key.key is None:
        tensor_of = {"rows": key.rows, "presence": key.present, "absence": key.absent}
        found = [f"{what} of `{tensor}`" for what, tensor in tensor_of.items() if tensor is not None]
        return found[0] if found else f"always `{json.dumps(key.value)}`"
    parts = [
        f"`{key.key}`",
        f" - `{key.minus}`" if key.minus is not None else "",
        f" / `{key.over}`" if key.over is not None else "",
        f"; 0 means `{json.dumps(key.zero)}`" if key.zero is not None else "",
        f"; `{json.dumps(key.default)}` when absent" if key.default is not None else "",
    ]
    return "".join(parts)


def _gguf_rule(rule: GgufRule) -> str:
    allowed = [f"`{json.dumps(value)}`" for value in rule.allowed]
    allowed += [f"`{formula_text(rule.equals)}`"] if rule.equals is not None else []
    if rule.sections is not None:
        allowed.append(f"sections of text that cover the `{formula_text(rule.sections)}` rotated elements")
    written = "" if rule.written is None else f"; conversion writes `{formula_text(rule.written)}`"
    return f"{', '.join(f'`{key}`' for key in rule.keys)}: {' or '.join(allowed)} ({rule.note}){written}"


def _gguf_page(gguf: Gguf) -> GgufPage:
    return GgufPage(
        architectures=", ".join(f"`{name}`" for name in gguf.architectures),
        config=tuple((key.name, _gguf_place(key)) for key in gguf.config),
        rules=tuple(map(_gguf_rule, gguf.rules)),
        ignored=tuple(
            f"{', '.join(f'`{name}`' for name in (*ignored.keys, *ignored.tensors))} ({ignored.note})"
            for ignored in gguf.ignored
        ),
    )


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
                    f"`{fixed.path}`: {' or '.join(f'`{json.dumps(v)}`' for v in fixed.allowed)} ({fixed.note})"
                    for fixed in family.fixed
                ),
                groups=tuple(_group_line(group, family.mtp) for group in family.groups),
                tensors=tuple(map(_tensor_row, family.tensors)),
                gguf=() if family.gguf is None else (_gguf_page(family.gguf),),
            )
            for family in families
        )
    )
