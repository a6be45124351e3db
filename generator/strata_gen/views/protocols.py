"""Views of protocols: the words and the blocks as C++ structs, and the words as a Python table."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.protocol import Member, MemberType, Protocol, Word, type_name
from strata_gen.resolve import Plan
from strata_gen.views.knobs import condition_argument, quoted
from strata_gen.views.knobs_cpp import cpp_string


@dataclass(frozen=True, slots=True)
class WordView:
    """One signal. Texts are C++ literals where they are not names."""

    name: str
    enumerator: str
    literal: str
    kind: str
    writer: str
    stamp: str
    raised: str
    missing: str
    help: str


@dataclass(frozen=True, slots=True)
class StampedView:
    """A block that stamps lie in."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class WordsView:
    """A header of words; `type` is the struct, `blocks` are those that stamps lie in."""

    type: str
    help: str
    blocks: tuple[StampedView, ...]
    words: tuple[WordView, ...]
    count: int


@dataclass(frozen=True, slots=True)
class MemberView:
    """One field: `count` is its C++ number of values, with run-time sizes as parameters of the same name."""

    name: str
    type: str
    count: str
    help: str


@dataclass(frozen=True, slots=True)
class RecordView:
    """A struct of values that make up one element of a field."""

    type: str
    value: str
    parts: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class ChoiceView:
    """An enum of what the values of a field mean."""

    type: str
    value: str
    enumerators: tuple[str, ...]
    help: str


@dataclass(frozen=True, slots=True)
class LimitView:
    """One size that is known when code is compiled."""

    constant: str
    value: int
    help: str


@dataclass(frozen=True, slots=True)
class BlockView:
    """A header of one block: `fixed` fields in the struct, `sized` ones behind it. `parameters` are run-time sizes."""

    type: str
    help: str
    limits: tuple[LimitView, ...]
    records: tuple[RecordView, ...]
    choices: tuple[ChoiceView, ...]
    fixed: tuple[MemberView, ...]
    sized: tuple[MemberView, ...]
    parameters: str


@dataclass(frozen=True, slots=True)
class SignalsView:
    """The words as Python: keyword arguments of each `SignalInfo`."""

    signals: tuple[tuple[str, ...], ...]


_TYPES = {
    MemberType.U8: "std::uint8_t",
    MemberType.U32: "std::uint32_t",
    MemberType.I32: "std::int32_t",
    MemberType.F32: "float",
}


def _enumerator(name: str) -> str:
    return "k" + "".join(part.capitalize() for part in name.split("_"))


def _include(protocol: str) -> str:
    return f"strata/gen/protocol/{protocol}.hpp"


def _word(word: Word) -> WordView:
    return WordView(
        name=word.name,
        enumerator=_enumerator(word.name),
        literal=cpp_string(word.name),
        kind=f"WordKind::{_enumerator(word.kind)}",
        writer=f"Side::{_enumerator(word.writer)}",
        stamp=f"[](const Blocks& of) {{ return &of.{word.stamp[0]}->{word.stamp[1]}; }}" if word.stamp else "nullptr",
        raised=cpp_string(word.raised),
        missing=cpp_string(word.missing),
        help=f"{word.writer} to {word.writer.other}: {word.raised}",
    )


def _words(protocol: Protocol) -> WordsView:
    blocks = {word.stamp[0] for word in protocol.words if word.stamp}
    return WordsView(
        type=protocol.type_name,
        help=protocol.help,
        blocks=tuple(StampedView(block, type_name(block)) for block in sorted(blocks)),
        words=tuple(map(_word, protocol.words)),
        count=len(protocol.words),
    )


def _constant(protocol: Protocol, name: str) -> str:
    return _enumerator(f"{protocol.name}_{name}")


def _member(protocol: Protocol, member: Member) -> MemberView:
    axes = (name if name in protocol.sizes else _constant(protocol, name) for name in member.shape)
    own = type_name(f"{protocol.name}_{member.name}")
    type_ = own if member.parts or member.values else _TYPES[member.type]
    return MemberView(member.name, type_, " * ".join(axes), member.help)


def _record(protocol: Protocol, member: Member) -> RecordView:
    return RecordView(type_name(f"{protocol.name}_{member.name}"), _TYPES[member.type], member.parts, member.help)


def _choice(protocol: Protocol, member: Member) -> ChoiceView:
    enumerators = tuple(map(_enumerator, member.values))
    return ChoiceView(type_name(f"{protocol.name}_{member.name}"), _TYPES[member.type], enumerators, member.help)


def _value(knob: str, value: int, plan: Plan) -> int:
    if not knob:
        return value
    built_in = plan.compile_values[knob]
    assert isinstance(built_in, int)
    return built_in


def _block(protocol: Protocol, plan: Plan) -> BlockView:
    members = [(_member(protocol, member), protocol.is_fixed(member)) for member in protocol.members]
    return BlockView(
        type=protocol.type_name,
        help=protocol.help,
        limits=tuple(
            LimitView(_constant(protocol, limit.name), _value(limit.knob, limit.value, plan), limit.help)
            for limit in protocol.limits
        ),
        records=tuple(_record(protocol, member) for member in protocol.members if member.parts),
        choices=tuple(_choice(protocol, member) for member in protocol.members if member.values),
        fixed=tuple(view for view, is_fixed in members if is_fixed),
        sized=tuple(view for view, is_fixed in members if not is_fixed),
        parameters=", ".join(f"std::size_t {name}" for name in protocol.sizes),
    )


def _signal(word: Word, plan: Plan) -> tuple[str, ...]:
    when = () if word.when is None else (f"when={condition_argument(word.when, plan.specs.knobs)}",)
    return (
        f"name={quoted(word.name)}",
        f"kind={quoted(str(word.kind))}",
        f"writer={quoted(str(word.writer))}",
        f"stamped={word.stamp is not None}",
        f"raised={quoted(word.raised)}",
        f"missing={quoted(word.missing)}",
        *when,
    )


def _header(protocol: Protocol) -> str:
    return f"include/{_include(protocol.name)}"


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(protocol.span.file for protocol in plan.specs.protocols)


EMITTERS = (
    Emitter(
        "words.hpp.j2",
        lambda plan: tuple((_header(one), _words(one)) for one in plan.specs.protocols if one.words),
        _sources,
    ),
    Emitter(
        "block.hpp.j2",
        lambda plan: tuple((_header(one), _block(one, plan)) for one in plan.specs.protocols if one.members),
        _sources,
    ),
    Emitter(
        "signals.py.j2",
        lambda plan: (
            (
                "python/signals.py",
                SignalsView(tuple(_signal(word, plan) for one in plan.specs.protocols for word in one.words)),
            ),
        ),
        _sources,
    ),
)
