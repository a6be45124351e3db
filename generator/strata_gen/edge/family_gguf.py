"""The `gguf` section of a family, from the edge to the model."""

from __future__ import annotations

from strata_gen.edge.family_base import NUMBERS, FamilyPart, plain
from strata_gen.edge.family_edge import GgufEdge, GgufKeyEdge, GgufRuleEdge
from strata_gen.edge.formula import parse_formula
from strata_gen.load.document import DataPath
from strata_gen.model.family import Formula, Gguf, GgufIgnored, GgufKey, GgufRule, KeyType

_SOURCES = ("key", "rows", "present", "absent", "value")
_AT: DataPath = ("gguf",)


def _check_operand(part: FamilyPart, edge: GgufEdge, index: int, name: str, path: DataPath) -> None:
    part.check_key(name, NUMBERS, path)
    if name not in {other.name for other in edge.config[:index]}:
        part.error("M034", f"'{name}' must stand before what is worked out from it", path)


def _key(part: FamilyPart, edge: GgufEdge, index: int) -> GgufKey:
    entry, path = edge.config[index], (*_AT, "config", index)
    part.check_key(entry.name, tuple(KeyType), (*path, "name"))
    given = [source for source in _SOURCES if getattr(entry, source) is not None]
    if len(given) != 1:
        found = f"has {' and '.join(given)}" if given else f"has none of {', '.join(_SOURCES)}"
        part.error("M033", f"config key '{entry.name}' {found}", (*path, "name"), "one of them is needed")
    for field in ("minus", "over"):
        operand = getattr(entry, field)
        if operand is not None:
            _check_operand(part, edge, index, operand, (*path, field))
    return _converted(part, entry, path)


def _converted(part: FamilyPart, entry: GgufKeyEdge, path: DataPath) -> GgufKey:
    kind = next((key.type for key in part.edge.config if key.name == entry.name), KeyType.STR)

    def typed(field: str) -> bool | int | float | str | None:
        return part.typed(getattr(entry, field), kind, entry.name, (*path, field))

    return GgufKey(
        name=entry.name,
        key=entry.key,
        default=typed("default"),
        minus=entry.minus,
        over=entry.over,
        zero=typed("zero"),
        rows=entry.rows,
        present=entry.present,
        absent=entry.absent,
        value=typed("value"),
    )


def _rule(part: FamilyPart, rule: GgufRuleEdge, path: DataPath) -> GgufRule:
    if not rule.allowed and rule.equals is None and rule.sections is None:
        part.error("M035", "a rule says nothing of what is allowed", (*path, "note"))
    converted = GgufRule(
        keys=tuple(rule.keys),
        allowed=tuple(map(plain, rule.allowed)),
        equals=part.maybe(rule.equals, (*path, "equals")),
        sections=part.maybe(rule.sections, (*path, "sections")),
        written=part.maybe(rule.written, (*path, "written")),
        note=rule.note,
    )
    if converted.written is not None and not _allows(converted, converted.written):
        part.error("M037", "a rule does not allow what is written", (*path, "written"))
    return converted


def _allows(rule: GgufRule, written: Formula) -> bool:
    numbers = [one for one in rule.allowed if isinstance(one, int) and not isinstance(one, bool)]
    return written == rule.equals or written in [parse_formula(str(number)) for number in numbers]


def convert_gguf(part: FamilyPart) -> Gguf | None:
    """Convert the section, None without one. Every config key needs a place in it."""
    edge = part.edge.gguf
    if edge is None:
        return None
    part.check_repeats("GGUF value", (entry.name for entry in edge.config), (*_AT, "config"))
    named = {entry.name for entry in edge.config}
    for missing in (key.name for key in part.edge.config if key.name not in named):
        part.error("M032", f"config key '{missing}' has no place in GGUF files", (*_AT, "config"))
    return Gguf(
        architectures=tuple(edge.architectures),
        config=tuple(_key(part, edge, index) for index in range(len(edge.config))),
        rules=tuple(_rule(part, rule, (*_AT, "rules", index)) for index, rule in enumerate(edge.rules)),
        ignored=tuple(GgufIgnored(tuple(i.keys), tuple(i.tensors), i.note) for i in edge.ignored),
    )
