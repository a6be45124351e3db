"""Protocols at the edge: the shape of `specs/protocol/*.yaml`, and what one file can be wrong about by itself."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field as Key

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.edge.base import Edge, SpecKind, Text, file_by_file
from strata_gen.edge.expr import ExprError, parse_expr
from strata_gen.edge.fields import LAX, NAME, Help
from strata_gen.edge.findings import Findings
from strata_gen.load.document import Document
from strata_gen.model.expr import Constant, Expr
from strata_gen.model.knob import Relation
from strata_gen.model.protocol import Limit, Member, MemberType, Protocol, Side, Word, WordKind

Name = Annotated[Text, Key(pattern=NAME)]
Sentence = Annotated[Text, Key(min_length=1)]


class WordEdge(Edge):
    """One signal."""

    of_lines = frozenset({"when"})

    name: Annotated[Name, Key(description="Name of the signal.")]
    kind: Annotated[
        WordKind, LAX, Key(description="`ring`: the last layer's ring value; `error`: what went wrong.")
    ] = WordKind.RING
    writer: Annotated[Side, LAX, Key(description="The half that raises it; the other one reads it.")]
    stamp: Annotated[
        Text | None,
        Key(pattern=r"^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$", description="Field that proves the data: `block.field`."),
    ] = None
    when: Annotated[
        Text | None, Key(min_length=1, description="Condition over knobs; without it there is no word.")
    ] = None
    raised: Annotated[Sentence, Key(description="What has happened when it is raised.")]
    missing: Annotated[Sentence, Key(description="What happens if it never is.")]


class LimitEdge(Edge):
    """A size that is known when code is compiled."""

    name: Annotated[Name, Key(description="Name of the size.")]
    value: Annotated[int | None, Key(ge=1, le=65536, description="The size itself.")] = None
    knob: Annotated[Text | None, Key(description="The compile-time knob that holds it.")] = None
    help: Help


class SizeEdge(Edge):
    """A size that is known at run time alone."""

    name: Annotated[Name, Key(description="Name of the size.")]
    help: Help


class MemberEdge(Edge):
    """One field of a block."""

    name: Annotated[Name, Key(description="Name of the field.")]
    type: Annotated[MemberType, LAX, Key(description="Type of each value.")]
    parts: Annotated[list[Name], Key(default_factory=list, description="Values that make up one element, by name.")]
    values: Annotated[list[Name], Key(default_factory=list, description="What the values mean, from 0 on.")]
    shape: Annotated[list[Name], Key(default_factory=list, description="Limits and sizes; none for a single value.")]
    writer: Annotated[Side, LAX, Key(description="The half that writes it.")]
    help: Help


class ProtocolEdge(Edge):
    """One piece of memory that the two halves of a window share."""

    name: Annotated[Name, Key(description="Name of the words, or of the block.")]
    help: Help
    words: Annotated[list[WordEdge], Key(default_factory=list, description="Signals, each on its own cache line.")]
    limits: Annotated[list[LimitEdge], Key(default_factory=list, description="Sizes known when code is compiled.")]
    sizes: Annotated[list[SizeEdge], Key(default_factory=list, description="Sizes known at run time alone.")]
    fields: Annotated[list[MemberEdge], Key(default_factory=list, description="Fields of a block, in order.")]


class _Reader:
    def __init__(self, edge: ProtocolEdge, findings: Findings) -> None:
        self.edge, self.findings = edge, findings

    def check_kind(self) -> None:
        if bool(self.edge.words) == bool(self.edge.fields):
            self.findings.error("P020", "there must be either 'words' or 'fields'", "name")

    def check_names(self, key: str, names: Iterable[str]) -> None:
        seen: dict[str, int] = {}
        for index, name in enumerate(names):
            if name in seen:
                first = Note("first given here", self.findings.document.at(key, seen[name], "name"))
                self.findings.error("P021", f"two {key} are named '{name}'", key, index, "name", notes=(first,))
            seen.setdefault(name, index)

    def check_limits(self) -> None:
        for index, limit in enumerate(self.edge.limits):
            if (limit.value is None) == (limit.knob is None):
                self.findings.error("P022", f"limit '{limit.name}' needs either 'value' or 'knob'", "limits", index)

    def check_shapes(self) -> None:
        sizes = {size.name for size in self.edge.sizes}
        known = {limit.name for limit in self.edge.limits} | sizes
        behind = False
        for index, member in enumerate(self.edge.fields):
            for axis, name in enumerate(member.shape):
                if name not in known:
                    message = f"field '{member.name}' has an axis '{name}', which is no limit and no size"
                    hint = did_you_mean(name, known)
                    self.findings.error("P023", message, "fields", index, "shape", axis, hint=hint)
            sized = bool(sizes & set(member.shape))
            if member.parts and member.values:
                message = f"field '{member.name}' has 'parts' and 'values': it is either a record or a choice"
                self.findings.error("P025", message, "fields", index, "values")
            if behind and not sized:
                message = f"field '{member.name}' lies behind one whose size is known at run time alone"
                self.findings.error("P024", message, "fields", index, "name")
            behind = behind or sized

    def condition(self, text: str, index: int) -> Relation:
        document = self.findings.document
        span = document.at("words", index, "when")
        parsed: Expr
        try:
            parsed = parse_expr(text, lambda start, end: document.inside(start, end, "words", index, "when"))
        except ExprError as problem:
            message = f"{problem.message} in word '{self.edge.words[index].name}'"
            self.findings.sink.error("P030", message, problem.span, problem.hint)
            parsed = Constant(True)
        return Relation(parsed, text, "", span)

    def word(self, edge: WordEdge, index: int) -> Word:
        block, _, field = (edge.stamp or "").partition(".")
        return Word(
            name=edge.name,
            kind=edge.kind,
            writer=edge.writer,
            stamp=(block, field) if edge.stamp else None,
            when=self.condition(edge.when, index) if edge.when else None,
            raised=edge.raised,
            missing=edge.missing,
            span=self.findings.document.at("words", index, "name"),
        )

    def member(self, edge: MemberEdge, index: int) -> Member:
        span = self.findings.document.at("fields", index, "name")
        parts, values, shape = map(tuple, (edge.parts, edge.values, edge.shape))
        return Member(edge.name, edge.type, parts, values, shape, edge.writer, edge.help, span)

    def read(self) -> tuple[Protocol, ...]:
        before = self.findings.count
        self.check_kind()
        self.check_names("words", (word.name for word in self.edge.words))
        self.check_names("fields", (member.name for member in self.edge.fields))
        self.check_limits()
        self.check_shapes()
        words = tuple(self.word(word, index) for index, word in enumerate(self.edge.words))
        if self.findings.count > before:
            return ()
        return (
            Protocol(
                name=self.edge.name,
                help=self.edge.help,
                words=words,
                limits=tuple(Limit(one.name, one.value or 0, one.knob or "", one.help) for one in self.edge.limits),
                sizes={size.name: size.help for size in self.edge.sizes},
                members=tuple(self.member(member, index) for index, member in enumerate(self.edge.fields)),
                span=self.findings.document.at("name"),
            ),
        )


def _convert(edge: ProtocolEdge, document: Document, sink: Sink) -> tuple[Protocol, ...]:
    return _Reader(edge, Findings(f"protocol '{edge.name}'", document, sink)).read()


PROTOCOL: SpecKind[ProtocolEdge, Protocol] = SpecKind("protocol", "protocol", "P", ProtocolEdge, file_by_file(_convert))
