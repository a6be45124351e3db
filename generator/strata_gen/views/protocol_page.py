"""The view of the reference page of protocols."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.model.protocol import Member, Protocol, Word
from strata_gen.model.specset import SpecSet

PAGE_TEMPLATE = "protocol.md.j2"


@dataclass(frozen=True, slots=True)
class WordRow:
    """One signal in the reference page."""

    name: str
    writer: str
    reader: str
    raised: str
    missing: str
    exists: str


@dataclass(frozen=True, slots=True)
class WordsPart:
    """The signals of one file."""

    name: str
    help: str
    words: tuple[WordRow, ...]


@dataclass(frozen=True, slots=True)
class FieldRow:
    """One field of a block in the reference page."""

    name: str
    type: str
    shape: str
    writer: str
    help: str


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One size of a block in the reference page."""

    name: str
    value: str
    help: str


@dataclass(frozen=True, slots=True)
class BlockPart:
    """One block in the reference page."""

    name: str
    help: str
    fields: tuple[FieldRow, ...]
    sizes: tuple[SizeRow, ...]


@dataclass(frozen=True, slots=True)
class ProtocolPage:
    """The reference page of protocols."""

    words: tuple[WordsPart, ...]
    blocks: tuple[BlockPart, ...]


def _word(word: Word) -> WordRow:
    exists = f"while `{word.when.text}`" if word.when else "always"
    return WordRow(word.name, word.writer, word.writer.other, word.raised, word.missing, exists)


def _field(member: Member) -> FieldRow:
    shape = f"[{', '.join(member.shape)}]" if member.shape else ""
    of = f" {{{', '.join(member.parts or member.values)}}}" if member.parts or member.values else ""
    return FieldRow(member.name, f"{member.type}{of}", shape, member.writer, member.help)


def _sizes(protocol: Protocol) -> Iterator[SizeRow]:
    for limit in protocol.limits:
        yield SizeRow(limit.name, f"`{limit.knob}`" if limit.knob else str(limit.value), limit.help)
    for name, text in protocol.sizes.items():
        yield SizeRow(name, "the model's", text)


def page_view(specs: SpecSet) -> ProtocolPage:
    """Return the view of the reference page."""
    return ProtocolPage(
        tuple(WordsPart(one.name, one.help, tuple(map(_word, one.words))) for one in specs.protocols if one.words),
        tuple(
            BlockPart(one.name, one.help, tuple(map(_field, one.members)), tuple(_sizes(one)))
            for one in specs.protocols
            if one.members
        ),
    )


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the spec files that the page depends on."""
    return tuple(protocol.span.file for protocol in specs.protocols)
