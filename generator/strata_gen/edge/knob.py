"""Knobs at the edge: the shape of `specs/knobs/*.yaml`, and what one entry can be wrong about by itself."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import AfterValidator, Field, WithJsonSchema

from strata_gen.diagnostics import Sink
from strata_gen.edge.base import Edge, SpecKind, Text, file_by_file
from strata_gen.edge.expr import ExprError, parse_expr
from strata_gen.edge.knob_value import ValueReader
from strata_gen.load.document import DataPath, Document
from strata_gen.model.expr import Constant, Expr
from strata_gen.model.knob import (
    Affects,
    ChoiceSource,
    Implication,
    Invalid,
    Knob,
    KnobType,
    Measurement,
    Output,
    Relation,
)

_LAX = Field(strict=False)  # YAML has words, not enum members

Condition = Annotated[Text, Field(min_length=1, description="A condition over knobs, such as `cache.slots > 0`.")]
Note = Annotated[Text, Field(min_length=1, description="What the user is told when the condition strikes.")]


def _version(text: str) -> str:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)+", text):
        raise ValueError(f"'{text}' is not a version such as 0.2")
    return text


Bound = int | float | str
Raw = Annotated[Any, WithJsonSchema({"type": ["boolean", "number", "string", "array", "null"]})]


class RangeEdge(Edge):
    """Bounds of a number; bytes and durations are written with their unit."""

    min: Annotated[Bound | None, Field(description="Smallest value.")] = None
    max: Annotated[Bound | None, Field(description="Largest value.")] = None
    above: Annotated[Bound | None, Field(description="The value is greater than this.")] = None
    below: Annotated[Bound | None, Field(description="The value is less than this.")] = None
    multiple_of: Annotated[Bound | None, Field(description="The value is a multiple of this.")] = None


class RelationEdge(Edge):
    """A condition over knobs, and what to tell the user."""

    of_lines = frozenset({"when"})

    when: Condition
    note: Note


class ImplicationEdge(Edge):
    """While `when` holds, `knob` defaults to `value`."""

    of_lines = frozenset({"when"})
    of_values = frozenset({"value"})

    when: Condition
    knob: Annotated[Text, Field(description="Name of the knob whose default changes.")]
    value: Annotated[Raw, Field(description="Its default while the condition holds.")]


class SaysEdge(Edge):
    """A start-up line."""

    of_lines = frozenset({"when"})

    when: Condition
    line: Annotated[Text, Field(min_length=1, description="What is said then; {value} stands for the knob's value.")]


class MeasurementEdge(Edge):
    """One measured effect."""

    hardware: Annotated[Text, Field(min_length=1, description="What it was measured on.")]
    result: Annotated[Text, Field(min_length=1, description="What was measured, against what.")]


class KnobEdge(Edge):
    """One knob: everything that a user can set."""

    of_lines = frozenset({"details", "ignored_unless"})
    of_values = frozenset({"default"})

    name: Annotated[Text, Field(description="`section.attribute`; variable, flag and fields are derived from it.")]
    variable: Annotated[
        Text,
        Field(pattern=r"^(STRATA_[A-Z0-9_]+)?$", description="Environment variable, if not the derived one."),
    ] = ""
    type: Annotated[KnobType, _LAX, Field(description="Type of the value.")]
    default: Annotated[Raw, Field(description="Value when nothing sets it; left out or null: unset.")] = None
    range: Annotated[RangeEdge | None, Field(description="Bounds of a number.")] = None
    choices: Annotated[list[Text] | None, Field(description="Values of an enum.")] = None
    choices_from: Annotated[
        ChoiceSource | None, _LAX, Field(description="Further values: the weight formats that can be made.")
    ] = None
    words: Annotated[dict[Text, Bound] | None, Field(description="Words that stand for values of a number.")] = None
    invalid: Annotated[Invalid, _LAX, Field(description="What a value that does not fit does.")] = Invalid.ERROR
    affects: Annotated[Affects, _LAX, Field(description="When a value takes effect.")]
    output: Annotated[Output, _LAX, Field(description="What a value may do to the generated text's arithmetic.")]
    requires: Annotated[list[RelationEdge], Field(default_factory=list, description="Must hold when the knob is set.")]
    conflicts: Annotated[
        list[RelationEdge], Field(default_factory=list, description="Must not hold when the knob is set.")
    ]
    ignored_unless: Annotated[Condition | None, Field(description="While it does not hold, a value is ignored.")] = None
    off_with: Annotated[
        list[RelationEdge], Field(default_factory=list, description="While one holds, the knob is at its default.")
    ]
    implies: Annotated[list[ImplicationEdge], Field(default_factory=list, description="Weak defaults of other knobs.")]
    says: Annotated[list[SaysEdge], Field(default_factory=list, description="Start-up lines.")]
    help: Annotated[Text, Field(description="One sentence that ends in a full stop.")]
    details: Annotated[Text, Field(description="What the reference page says beyond the sentence.")] = ""
    since: Annotated[Text, AfterValidator(_version), Field(description="First version with this knob.")] = ""
    measured: Annotated[
        list[MeasurementEdge], Field(default_factory=list, description="Measured effects, with their hardware.")
    ]


class KnobFile(Edge):
    """One file of knobs."""

    knobs: Annotated[list[KnobEdge], Field(min_length=1, description="The knobs of one section, or of a few.")]


_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*\.[a-z][a-z0-9]*(_[a-z0-9]+)*")
_SENTENCE_END = re.compile(r"(?<!e\.g)(?<!i\.e)[.!?]\s+[A-Z]")
_CPP_KEYWORD = re.compile(
    r"alignas|alignof|and|and_eq|asm|auto|bitand|bitor|bool|break|case|catch|char|char8_t|char16_t|char32_t|class|"
    r"compl|concept|const|consteval|constexpr|constinit|const_cast|continue|co_await|co_return|co_yield|decltype|default|"
    r"delete|do|double|dynamic_cast|else|enum|explicit|export|extern|false|float|for|friend|goto|if|inline|int|long|"
    r"mutable|namespace|new|noexcept|not|not_eq|nullptr|operator|or|or_eq|private|protected|public|register|"
    r"reinterpret_cast|requires|return|short|signed|sizeof|static|static_assert|static_cast|struct|switch|template|this|"
    r"thread_local|throw|true|try|typedef|typeid|typename|union|unsigned|using|virtual|void|volatile|wchar_t|while|xor|"
    r"xor_eq"
)


def _name_problem(name: str) -> str | None:
    if not _NAME.fullmatch(name):
        return f"'{name}' is not a knob's name: section.attribute, each of lowercase words joined by single '_'"
    for part in name.split("."):
        if keyword.iskeyword(part) or _CPP_KEYWORD.fullmatch(part):
            return f"'{part}' is a keyword of {'Python' if keyword.iskeyword(part) else 'C++'} and names no field"
    return None


def _help_problem(text: str) -> str | None:
    if not text.strip().endswith("."):
        return "'help' must be a sentence that ends in a full stop"
    return "'help' must be one sentence: the rest belongs in 'details'" if _SENTENCE_END.search(text) else None


class _Converter:
    """Converts the knob at `path` of one document, reporting as it goes."""

    def __init__(self, edge: KnobEdge, path: DataPath, document: Document, sink: Sink) -> None:
        self.edge, self.path, self.document, self.sink = edge, path, document, sink

    def error(self, code: str, message: str, *path: str | int, hint: str = "") -> None:
        self.sink.error(code, message, self.document.at(*self.path, *path), hint)

    def condition(self, text: str, *path: str | int) -> Expr:
        try:
            return parse_expr(text, lambda start, end: self.document.inside(start, end, *self.path, *path))
        except ExprError as problem:
            self.sink.error("K030", f"{problem.message} in knob '{self.edge.name}'", problem.span, problem.hint)
            return Constant(True)

    def relation(self, text: str, note: str, *path: str | int) -> Relation:
        span = self.document.at(*self.path, *path)
        return Relation(self.condition(text, *path), text, note, span)

    def relations(self, edges: list[RelationEdge], key: str) -> tuple[Relation, ...]:
        return tuple(self.relation(edge.when, edge.note, key, index, "when") for index, edge in enumerate(edges))

    def implications(self) -> Iterator[Implication]:
        for index, edge in enumerate(self.edge.implies):
            value = tuple(edge.value) if isinstance(edge.value, list) else edge.value
            span = self.document.at(*self.path, "implies", index, "value")
            knob_span = self.document.at(*self.path, "implies", index, "knob")
            when = self.relation(edge.when, "", "implies", index, "when")
            yield Implication(when, edge.knob, value, span, knob_span)

    def check_words(self) -> None:
        edge = self.edge
        if problem := _name_problem(edge.name):
            self.error("K020", problem, "name")
        if problem := _help_problem(edge.help):
            self.error("K021", f"{problem} in knob '{edge.name}'", "help")
        if edge.choices_from is not None and edge.type is not KnobType.ENUM:
            hint = "only an enum has them"
            span = self.document.key_at(*self.path, "choices_from")
            self.sink.error("K026", f"a knob of type {edge.type} has no choices in knob '{edge.name}'", span, hint)
        if edge.affects is Affects.COMPILE:
            if edge.type not in (KnobType.BOOL, KnobType.INT, KnobType.ENUM):
                hint = "a value in a build key is a bool, an int or an enum"
                self.error("K025", f"knob '{edge.name}' affects compile and is of type {edge.type}", "type", hint=hint)
            if edge.default is None:
                self.error("K025", f"knob '{edge.name}' affects compile and has no default", "default")

    def knob(self) -> Knob:
        edge = self.edge
        self.check_words()
        values = ValueReader(edge.name, edge.type, self.document, self.path, self.sink)
        limits = values.range(edge.range.model_dump() if edge.range else None)
        choices = values.choices(edge.choices)
        words = values.words(edge.words)
        ignored_unless = self.relation(edge.ignored_unless, "", "ignored_unless") if edge.ignored_unless else None
        return Knob(
            name=edge.name,
            variable=edge.variable,
            type=edge.type,
            default=values.default(edge.default, limits, choices, words),
            range=limits,
            choices=choices,
            choices_from=edge.choices_from,
            words=tuple(words.items()),
            invalid=edge.invalid,
            affects=edge.affects,
            output=edge.output,
            requires=self.relations(edge.requires, "requires"),
            conflicts=self.relations(edge.conflicts, "conflicts"),
            ignored_unless=ignored_unless,
            off_with=self.relations(edge.off_with, "off_with"),
            implies=tuple(self.implications()),
            says=tuple(self.relation(one.when, one.line, "says", i, "when") for i, one in enumerate(edge.says)),
            help=edge.help.strip(),
            details=edge.details.strip(),
            since=edge.since,
            measured=tuple(Measurement(row.hardware, row.result) for row in edge.measured),
            span=self.document.at(*self.path, "name"),
        )


def _convert(file: KnobFile, document: Document, sink: Sink) -> tuple[Knob, ...]:
    return tuple(_Converter(edge, ("knobs", index), document, sink).knob() for index, edge in enumerate(file.knobs))


KNOB: SpecKind[KnobFile, Knob] = SpecKind("knob", "knobs", "K", KnobFile, file_by_file(_convert))
