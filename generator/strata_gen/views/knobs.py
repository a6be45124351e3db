"""Views of knobs: the settings module of a kernels package, and the emitters of everything made from knobs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap

from strata_gen.emitter import Emitter
from strata_gen.model.expr import names_in
from strata_gen.model.knob import Affects, Implication, Knob, KnobType, KnobValue, Range, Relation
from strata_gen.model.values import show_value_of, value_for
from strata_gen.resolve import Plan
from strata_gen.views.expr_python import to_python
from strata_gen.views.knobs_cpp import header_view, source_view


@dataclass(frozen=True, slots=True)
class SettingView:
    """One field of a section's dataclass; `knob` is the quoted dotted name, `doc` a docstring."""

    name: str
    type: str
    doc: str
    knob: str


@dataclass(frozen=True, slots=True)
class SectionView:
    """One section's dataclass."""

    name: str
    type: str
    fields: tuple[SettingView, ...]


@dataclass(frozen=True, slots=True)
class SettingsView:
    """What `settings.py` holds. Each knob is the tuple of its keyword arguments."""

    sections: tuple[SectionView, ...]
    knobs: tuple[tuple[str, ...], ...]


def package_default(knob: Knob, plan: Plan) -> KnobValue:
    """Return what holds in this package while nobody sets the knob."""
    return _default_and_source(knob, plan)[0]


def _default_and_source(knob: Knob, plan: Plan) -> tuple[KnobValue, str]:
    """Return the package's default, and its member of the run time's `Source`."""
    if knob.affects is Affects.COMPILE:
        return plan.compile_values[knob.name], "BUILT"
    own = plan.target.knob_default(knob.name)
    return (value_for(knob, own.value), "TARGET") if own else (knob.default, "DEFAULT")


_PYTHON_TYPES = {
    KnobType.BOOL: "bool",
    KnobType.INT: "int",
    KnobType.FLOAT: "float",
    KnobType.STR: "str",
    KnobType.BYTES: "int",
    KnobType.DURATION: "int",
    KnobType.PATH: "str",
    KnobType.LIST: "tuple[str, ...]",
}
_BASE_UNITS = {KnobType.BYTES: "In bytes. ", KnobType.DURATION: "In nanoseconds. "}
_DOC_WIDTH = 110


def python_type(knob: Knob) -> str:
    """Return the annotation of a knob's value."""
    if knob.type is KnobType.ENUM:
        name = f"Literal[{', '.join(quoted(choice) for choice in knob.choices)}]"
    else:
        name = _PYTHON_TYPES[knob.type]
    return f"{name} | None" if knob.default is None else name


def quoted(text: str) -> str:
    """Quote a text for Python, in double quotes where it holds none."""
    literal = repr(text)
    return f'"{literal[1:-1]}"' if literal.startswith("'") and '"' not in text else literal


def _docstring(knob: Knob) -> str:
    """Return the lines of a field's docstring: its help, then what is derived from the entry."""
    default = show_value_of(knob, knob.default)
    where = (
        f"Built in, by strata-gen build --set {knob.name}=VALUE"
        if knob.affects is Affects.COMPILE
        else f"{knob.env}, {knob.flag}"
    )
    words = "".join(f"`{word}` is {value}. " for word, value in knob.words)
    facts = f"{_BASE_UNITS.get(knob.type, '')}{words}Default: {default}. {where}."
    text = [*wrap(knob.help, _DOC_WIDTH), "", *wrap(facts, _DOC_WIDTH)]
    escaped = "\n".join(text).replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""{escaped}\n"""'


def sections_of(knobs: Iterable[Knob]) -> tuple[SectionView, ...]:
    """Return the sections of knobs that are sorted by name."""
    return tuple(
        SectionView(
            name,
            "".join(map(str.capitalize, name.split("_"))) + "Settings",
            tuple(SettingView(k.attribute, python_type(k), _docstring(k), quoted(k.name)) for k in members),
        )
        for name, members in groupby(knobs, lambda knob: knob.section)
    )


def _call(name: str, arguments: Iterable[str]) -> str:
    return f"{name}({', '.join(arguments)})"


def _tuple(items: Sequence[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def _range(bounds: Range) -> str:
    given = ((name, getattr(bounds, name)) for name in ("minimum", "maximum", "above", "below", "multiple_of"))
    return _call("Range", (f"{name}={value!r}" for name, value in given if value is not None))


def _condition(relation: Relation, may_be_unset: frozenset[str]) -> str:
    reads = tuple(dict.fromkeys(name.knob for name in names_in(relation.condition)))
    arguments = [f"lambda v: {to_python(relation.condition, may_be_unset)}", repr(reads), repr(str(relation.text))]
    return _call("Condition", [*arguments, *([repr(str(relation.note))] if relation.note else [])])


def condition_argument(relation: Relation, knobs: Iterable[Knob]) -> str:
    """Return the Python expression that makes the `Condition` of a relation over `knobs`."""
    return _condition(relation, frozenset(knob.name for knob in knobs if knob.default is None))


def _implication(implication: Implication, may_be_unset: frozenset[str]) -> str:
    when = _condition(implication.when, may_be_unset)
    return _call("Implication", (when, quoted(implication.knob), repr(implication.value)))


def knob_arguments(knob: Knob, plan: Plan) -> tuple[str, ...]:
    """Return the keyword arguments of a knob's `KnobInfo`; those at the class's own defaults are left out."""
    default, source = _default_and_source(knob, plan)
    may_be_unset = frozenset(k.name for k in plan.specs.knobs if k.default is None)

    def conditions(relations: Iterable[Relation]) -> str:
        return _tuple([_condition(relation, may_be_unset) for relation in relations])

    optional = {
        "range": _range(knob.range) if knob.range != Range() else "",
        "choices": repr(knob.choices) if knob.choices else "",
        "words": repr(tuple((str(word), value) for word, value in knob.words)) if knob.words else "",
        "requires": conditions(knob.requires) if knob.requires else "",
        "conflicts": conditions(knob.conflicts) if knob.conflicts else "",
        "ignored_unless": _condition(knob.ignored_unless, may_be_unset) if knob.ignored_unless else "",
        "off_with": conditions(knob.off_with) if knob.off_with else "",
        "says": conditions(knob.says) if knob.says else "",
        "implies": _tuple([_implication(i, may_be_unset) for i in knob.implies]) if knob.implies else "",
    }
    words = {name: str(getattr(knob, name)) for name in ("name", "env", "flag", "field", "type")}
    effects = {name: str(getattr(knob, name)) for name in ("affects", "output", "invalid")}
    prose = {name: str(getattr(knob, name)) for name in ("help", "details", "since")}
    return (
        *(f"{name}={quoted(text)}" for name, text in words.items()),
        f"declared={knob.default!r}",
        f"default={default!r}",
        f"default_source=Source.{source}",
        *(f"{name}={quoted(text)}" for name, text in effects.items()),
        *(f"{name}={text}" for name, text in optional.items() if text),
        *(f"{name}={quoted(text)}" for name, text in prose.items()),
    )


def _settings(plan: Plan) -> tuple[tuple[str, SettingsView], ...]:
    knobs = tuple(knob_arguments(knob, plan) for knob in plan.specs.knobs)
    return (("python/settings.py", SettingsView(sections_of(plan.specs.knobs), knobs)),)


def _defaults(plan: Plan) -> dict[str, KnobValue]:
    return {knob.name: package_default(knob, plan) for knob in plan.specs.knobs}


def sources(plan: Plan) -> tuple[str, ...]:
    """Return the spec files that hold the knobs, and the target's when it has defaults of its own."""
    files = {knob.span.file for knob in plan.specs.knobs} | {own.span.file for own in plan.target.knob_defaults}
    return tuple(sorted(files))


EMITTERS = (
    Emitter("settings.py.j2", _settings, sources),
    Emitter(
        "knobs.hpp.j2",
        lambda plan: (("include/strata/gen/knobs.hpp", header_view(plan.specs.knobs, _defaults(plan))),),
        sources,
    ),
    Emitter(
        "knobs.cpp.j2", lambda plan: (("src/gen/knobs.cpp", source_view(plan.specs.knobs, _defaults(plan))),), sources
    ),
)
