"""Pydantic's errors become diagnostics: place, plain words, hint; one mistake is one finding."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

import pytest
from pydantic import BeforeValidator, Field

from strata_gen.diagnostics import Diagnostic, Sink
from strata_gen.edge.base import Edge, SpecKind, Text, file_by_file, read_edges
from strata_gen.load.document import Document, parse_document


class Colour(StrEnum):
    RED = "red"
    GREEN = "green"


def _positive(value: object) -> object:
    if value == 0:
        raise ValueError("zero is not allowed here")
    return value


class Inner(Edge):
    left: int
    right: int = 0


class Box(Edge):
    kind: Literal["box"]
    width: int


class Ball(Edge):
    kind: Literal["ball"]
    radius: int


class Thing(Edge):
    name: Text
    size: Annotated[int, Field(ge=1, le=8)] = 1
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    colour: Annotated[Colour, Field(strict=False)] = Colour.RED
    flag: bool = False
    words: Annotated[list[Annotated[Text, Field(min_length=2)]], Field(max_length=3)] = Field(default_factory=list)
    inner: Inner | None = None
    either: int | Inner = 0
    number: int | float = 0
    shape: Annotated[Box | Ball, Field(discriminator="kind")] | None = None
    table: dict[str, int] = Field(default_factory=dict)
    checked: Annotated[int, BeforeValidator(_positive)] = 1


class File(Edge):
    things: list[Thing]


def _convert(edge: File, _document: Document, _sink: Sink) -> tuple[Thing, ...]:
    return tuple(edge.things)


KIND: SpecKind[File, Thing] = SpecKind("thing", "things", "K", File, file_by_file(_convert))


def findings(*lines: str) -> list[Diagnostic]:
    text = "things:\n  - name: a\n" + "".join(f"    {line}\n" for line in lines)
    sink = Sink()
    document = parse_document(text, "f.yaml", sink)
    assert document is not None
    things = read_edges(KIND, (document,), sink)
    assert not (things and sink.diagnostics)
    return sorted(sink.diagnostics, key=lambda d: d.span)


@pytest.mark.parametrize(
    ("line", "code", "message", "label"),
    [
        ("size: 0", "K014", "'size' must be at least 1", ""),
        ("size: 9", "K014", "'size' must be at most 8", ""),
        ("share: 0", "K014", "'share' must be above 0", ""),
        ("share: 1.0", "K014", "'share' must be below 1", ""),
        ("size: 1.0", "K011", "'size' must be a whole number, not a number", ""),
        ('size: "1"', "K011", "'size' must be a whole number, not text", ""),
        ("size: true", "K011", "'size' must be a whole number, not true or false", ""),
        ("flag: no", "K011", "'flag' must be true or false, not text", "only true and false are booleans"),
        ("flag: 1", "K011", "'flag' must be true or false, not a whole number", ""),
        ("colour: grene", "K013", "'colour' must be one of red, green, not 'grene'", "did you mean 'green'?"),
        ("colour: [red]", "K013", "'colour' must be one of red, green, not a list", ""),
        ("words: word", "K011", "'words' must be a list, not text", ""),
        ("words: [ab, 12, c]", "K014", "item 3 of 'words' must have at least 2 characters", ""),
        (
            "words: [ab, true]",
            "K011",
            "item 2 of 'words' must be text, not true or false",
            "put it in quotes if it is text",
        ),
        ("words: [ab, ab, ab, ab]", "K014", "'words' must have at most 3 items", ""),
        ("inner: 3", "K011", "'inner' must be a mapping, not a whole number", ""),
        ("inner: {right: 1}", "K010", "missing key 'left'", ""),
        ("inner: {lfet: 1}", "K012", "unknown key 'lfet'", "did you mean 'left'?"),
        ("inner: {left: 1, colour: 3}", "K012", "unknown key 'colour'", ""),
        ("either: word", "K011", "'either' must be a whole number or a mapping, not text", ""),
        ("either: {left: word}", "K011", "'left' must be a whole number, not text", ""),
        ("either: {lft: 1}", "K012", "unknown key 'lft'", "did you mean 'left'?"),
        ("number: word", "K011", "'number' must be a number, not text", ""),
        ("shape: {kind: box, widht: 1}", "K012", "unknown key 'widht'", "did you mean 'width'?"),
        ("table: {a: word}", "K011", "'a' must be a whole number, not text", ""),
        ("checked: 0", "K015", "'checked': zero is not allowed here", ""),
        ("nmae: 3", "K012", "unknown key 'nmae'", "did you mean 'name'?"),
    ],
)
def test_one_mistake_is_one_finding(line: str, code: str, message: str, label: str) -> None:
    (finding,) = findings(line)
    assert (finding.code, finding.message, finding.label) == (code, f"{message} in thing 'a'", label)
    assert finding.span.line == 3


def test_a_tag_that_no_member_of_a_union_has() -> None:
    (finding,) = findings("shape: {kind: bal, radius: 1}")
    assert finding.code == "K013"
    assert finding.message == "'kind' must be one of box, ball, not 'bal' in thing 'a'"
    assert finding.label == "did you mean 'ball'?"
    assert finding.span.text[finding.span.column - 1 : finding.span.end_column - 1] == "bal"


def test_a_union_without_its_tag() -> None:
    (finding,) = findings("shape: {radius: 1}")
    assert (finding.code, finding.message) == ("K010", "missing key 'kind' in thing 'a'")


def test_all_mistakes_are_found_at_once() -> None:
    assert [finding.code for finding in findings("size: 0", "flag: no", "inner: {}", "other: 1")] == [
        "K014",
        "K011",
        "K010",
        "K012",
    ]


def test_a_number_of_text_type_keeps_how_it_was_written() -> None:
    sink = Sink()
    document = parse_document("things:\n  - name: 8.10\n    words: [0x10, 1e3]\n", "f.yaml", sink)
    assert document is not None
    (thing,) = read_edges(KIND, (document,), sink)
    assert thing.name == "8.10"
    assert thing.words == ["0x10", "1e3"]
