"""Weight formats: the bits of one stored block, said once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span


class FieldType(StrEnum):
    """Type of the values in a field. All are little-endian."""

    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    U8 = "u8"

    @property
    def bytes(self) -> int:
        """Bytes of one value."""
        return _FIELD_BYTES[self]

    @property
    def largest_integer(self) -> int | None:
        """Largest value of an integer type; None for a float type."""
        return _LARGEST_INTEGERS.get(self)


_FIELD_BYTES: Mapping[FieldType, int] = {
    FieldType.F32: 4,
    FieldType.F16: 2,
    FieldType.BF16: 2,
    FieldType.I8: 1,
    FieldType.U8: 1,
}
_LARGEST_INTEGERS: Mapping[FieldType, int] = {FieldType.I8: 127, FieldType.U8: 255}


class Activation(StrEnum):
    """The form in which the dot kernels of a format take their input."""

    FLOAT = "float"  # float32 as it is
    INT8 = "int8"  # blocks of 32 signed bytes with one float scale


ACTIVATION_BLOCK = 32
"""Values in one block of an int8 activation."""


class EncodeRule(StrEnum):
    """How floats become blocks."""

    CAST = "cast"  # each value converted to the field's type
    ABSMAX = "absmax"  # scale = largest magnitude / levels, values rounded half away from zero


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


@dataclass(frozen=True, slots=True)
class Decode:
    """value[i] = quant[i], times the block's scale when there is one; in float32."""

    quant: Field
    scale: Field | None


@dataclass(frozen=True, slots=True)
class Encode:
    """The rule, and for `absmax` the number that the largest magnitude becomes."""

    rule: EncodeRule
    levels: int | None


@dataclass(frozen=True, slots=True)
class Format:
    """One weight format. `safetensors` and `gguf` name the same bits in those files; None where they have none."""

    name: str
    title: str
    help: str
    elements: int
    bytes: int
    fields: tuple[Field, ...]
    decode: Decode
    activation: Activation
    encode: Encode
    safetensors: str | None
    gguf: str | None
    span: Span

    @property
    def type_name(self) -> str:
        """Name of the C++ traits, e.g. `Q8_0`."""
        return self.name.capitalize()

    @property
    def bits_per_value(self) -> float:
        """Storage per value, scales included."""
        return self.bytes * 8 / self.elements
