"""Weight formats: the bits of one stored block, said once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span
from strata_gen.model.fields import Field
from strata_gen.model.integers import Integers


class Activation(StrEnum):
    """The form in which the dot kernels of a format take their input."""

    FLOAT = "float"
    INT8 = "int8"
    INT8_256 = "int8_256"

    @property
    def block(self) -> int:
        """Values that share one scale."""
        return {Activation.FLOAT: 1, Activation.INT8: 32, Activation.INT8_256: 256}[self]


ACTIVATION_HELP: Mapping[Activation, str] = {
    Activation.FLOAT: "float32 as it is",
    Activation.INT8: "blocks of 32 signed bytes with one float scale",
    Activation.INT8_256: "blocks of 256 signed bytes with one float scale, and their sums",
}


class EncodeRule(StrEnum):
    """How floats become blocks."""

    CAST = "cast"  # each value converted to the field's type
    ABSMAX = "absmax"  # scale = largest magnitude / levels, values rounded half away from zero
    PEAK = "peak"  # scale = value of largest magnitude / -levels, which so becomes the smallest integer
    NEAREST = "nearest"  # scale = largest magnitude / levels as it is stored, values the nearest of what there is
    FIT = "fit"  # scales and minimums of least squared error, part by part


@dataclass(frozen=True, slots=True)
class Decode:
    """value[i] = scale * scales[s] * quants[i] - minimum * minimums[s], in float32, in this order.

    s is the part of the block that i lies in. What is None is left out; plain floats are in `values` instead.
    """

    values: Field | None
    quants: Integers | None
    scale: Field | None
    scales: Integers | None
    minimum: Field | None
    minimums: Integers | None

    @property
    def integers(self) -> tuple[tuple[str, Integers], ...]:
        """The packed integers by the key that they have in the spec."""
        found = (("quants", self.quants), ("scales", self.scales), ("minimums", self.minimums))
        return tuple((key, integers) for key, integers in found if integers is not None)

    @property
    def factors(self) -> tuple[Field, ...]:
        """The fields that multiply."""
        return tuple(field for field in (self.scale, self.minimum) if field is not None)


@dataclass(frozen=True, slots=True)
class Encode:
    """The rule, and for scaled formats the number that the largest magnitude becomes."""

    rule: EncodeRule
    levels: int | None


INTERLEAVED_ROWS: Mapping[str, int] = {"avx512vnni": 16}
"""Rows side by side of the instruction sets with operations for them: `kInterleaved` of `strata/simd/<isa>.hpp`."""


@dataclass(frozen=True, slots=True)
class Format:
    """One weight format. `safetensors` and `gguf` name the same bits in those files; None where they have none.

    `encode` is None for formats that this project only reads. The instruction sets `layouts` read rows side by side,
    arranged so while loading; others read blocks as they are stored.
    """

    name: str
    title: str
    help: str
    elements: int
    bytes: int
    fields: tuple[Field, ...]
    decode: Decode
    activation: Activation
    encode: Encode | None
    safetensors: str | None
    gguf: str | None
    layouts: tuple[str, ...]
    span: Span

    @property
    def type_name(self) -> str:
        """Name of the C++ traits, e.g. `Q8_0Format`: none of the names beside and inside them ends like this."""
        return f"{self.name.capitalize()}Format"

    @property
    def part(self) -> int:
        """Values that share one scale."""
        return self.elements // self.decode.scales.count if self.decode.scales else self.elements

    def interleaved_rows(self, isa: str) -> int:
        """Rows that stand side by side for `isa`; 0 when it reads blocks as they are stored."""
        return INTERLEAVED_ROWS[isa] if isa in self.layouts else 0

    @property
    def bits_per_value(self) -> float:
        """Storage per value, scales included."""
        return self.bytes * 8 / self.elements
