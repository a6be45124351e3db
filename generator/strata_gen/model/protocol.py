"""Protocols: the memory through which the device half and the host half of a window meet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span
from strata_gen.model.knob import Relation


class Side(StrEnum):
    """One of the two halves."""

    DEVICE = "device"
    HOST = "host"

    @property
    def other(self) -> Side:
        """The half that reads what this one writes."""
        return Side.HOST if self is Side.DEVICE else Side.DEVICE


class WordKind(StrEnum):
    """What a word means."""

    RING = "ring"  # the ring value of the last layer that it was raised for; never decreases
    ERROR = "error"  # 0, or what went wrong


class MemberType(StrEnum):
    """Type of the values of a block's field."""

    U8 = "u8"
    U32 = "u32"
    I32 = "i32"
    F32 = "f32"


@dataclass(frozen=True, slots=True)
class Word:
    """One signal, on a cache line of its own. `when` None: it always exists.

    `stamp` names the block and the field that hold the same ring value once the data behind the word are there; both
    are empty for a word that no data stand behind.
    """

    name: str
    kind: WordKind
    writer: Side
    stamp: tuple[str, str] | None
    when: Relation | None
    raised: str
    missing: str
    span: Span


@dataclass(frozen=True, slots=True)
class Limit:
    """A size that is known when code is compiled: `value`, or that of a compile-time `knob`."""

    name: str
    value: int
    knob: str
    help: str


@dataclass(frozen=True, slots=True)
class Member:
    """One field of a block. `shape` names limits and sizes, and is empty for a single value.

    Each element has one value, or one of every name in `parts`. `values` names what values mean, from 0 on.
    """

    name: str
    type: MemberType
    parts: tuple[str, ...]
    values: tuple[str, ...]
    shape: tuple[str, ...]
    writer: Side
    help: str
    span: Span


def type_name(protocol: str) -> str:
    """Return the name of the C++ type of a protocol."""
    return "".join(part.capitalize() for part in protocol.split("_"))


@dataclass(frozen=True, slots=True)
class Protocol:
    """One piece of shared memory: words, or a block of fields.

    `sizes` are known at run time alone: name to help. Fields that have one lie behind all others.
    """

    name: str
    help: str
    words: tuple[Word, ...]
    limits: tuple[Limit, ...]
    sizes: Mapping[str, str]
    members: tuple[Member, ...]
    span: Span

    @property
    def type_name(self) -> str:
        """Name of the C++ type."""
        return type_name(self.name)

    def is_fixed(self, member: Member) -> bool:
        """Whether a field's place does not depend on sizes that are known at run time."""
        return not self.sizes.keys() & set(member.shape)
