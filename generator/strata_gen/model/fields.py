"""Fields of a stored block: typed values at byte offsets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class FieldType(StrEnum):
    """Type of the values in a field. All are little-endian."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    E8M0_HALF = "e8m0_half"  # a byte x that means 2^(x - 128)
    I8 = "i8"
    U8 = "u8"

    @property
    def bytes(self) -> int:
        """Bytes of one value."""
        return _BYTES[self]

    @property
    def is_float(self) -> bool:
        """Whether a value means a floating-point number."""
        return self not in (FieldType.I8, FieldType.U8)


_BYTES: Mapping[FieldType, int] = {
    FieldType.F32: 4,
    FieldType.F16: 2,
    FieldType.BF16: 2,
    FieldType.E8M0_HALF: 1,
    FieldType.I8: 1,
    FieldType.U8: 1,
}


@dataclass(frozen=True, slots=True)
class Field:
    """`count` values of `type` from byte `offset` of the block on."""

    name: str
    type: FieldType
    offset: int
    count: int
    help: str

    @property
    def end(self) -> int:
        """First byte after the field."""
        return self.offset + self.count * self.type.bytes
