"""How vector code reads a block: 32 elements at a time, from the addresses of their bits.

Only the numbers count here, not how the spec came to them: a plane whose elements lie in consecutive bytes is one load,
one shift and one mask, whatever its digits are called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from strata_gen.model.format import Activation, Format
from strata_gen.model.integers import Integers, Plane

LANES = 32
"""Elements that a kernel takes from a row at a time."""

CODES = 16
"""Entries of the tables that vector code looks numbers up in."""

_LARGEST_UNSIGNED = 127  # the sum of two products with an activation still fits into 16 bits


class NoVectorCode(Exception):
    """Bits lie where no kernel can read them. `key` is the part of `decode` that they belong to."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


@dataclass(frozen=True, slots=True)
class Run:
    """Bits `shift` and up of 32 consecutive bytes of the block become bits `to` and up."""

    byte: int
    shift: int
    bits: int
    to: int


@dataclass(frozen=True, slots=True)
class Halves:
    """Bits of 16 consecutive bytes, taken twice: `shifts[0]` for elements 0 to 15, `shifts[1]` for the others."""

    byte: int
    shifts: tuple[int, int]
    bits: int
    to: int


@dataclass(frozen=True, slots=True)
class Mask:
    """32 consecutive bits from byte `byte` on become bit `to` of one element each."""

    byte: int
    to: int


Part = Run | Halves | Mask


@dataclass(frozen=True, slots=True)
class GridPlan:
    """64 points: their low eight bits in consecutive bytes, their ninth bits in consecutive bits."""

    low_byte: int
    high_byte: int


@dataclass(frozen=True, slots=True)
class Word:
    """Bytes of scales, lowest first: `(load(bytes) spread by step bits, then shifted and masked)`.

    `step` 8: the scales lie in consecutive bytes. Otherwise they are packed, `step` bits each.
    """

    byte: int
    count: int
    step: int
    shift: int
    bits: int
    to: int
    first: int


@dataclass(frozen=True, slots=True)
class VectorPlan:
    """What vector code does for one format.

    `steps[j]` are the parts of elements 32 j to 32 j + 31 (empty with a grid), `signs[j]` the byte of their sign bits.
    Integers are made at least 0 by adding `bias` where kernels need that; None keeps their sign.
    """

    steps: tuple[tuple[Part, ...], ...]
    grid: GridPlan | None
    signs: tuple[int, ...]
    bias: int | None
    scales: tuple[Word, ...]
    minimums: tuple[Word, ...]


def _is_run(bits: Sequence[int], step: int) -> bool:
    return all(bit == bits[0] + step * index for index, bit in enumerate(bits))


def _part(plane: Plane, bits: Sequence[int]) -> Part | None:
    base = plane.field.offset
    if _is_run(bits, 8):
        return Run(base + bits[0] // 8, bits[0] % 8, plane.bits, plane.to)
    if plane.bits == 1 and bits[0] % 8 == 0 and _is_run(bits, 1):
        return Mask(base + bits[0] // 8, plane.to)
    low, high = bits[:16], bits[16:]
    if _is_run(low, 8) and _is_run(high, 8) and low[0] // 8 == high[0] // 8:
        return Halves(base + low[0] // 8, (low[0] % 8, high[0] % 8), plane.bits, plane.to)
    return None


def _bits(integers: Integers, elements: range, plane: Plane) -> list[int] | None:
    """Addresses of a plane's bits for some elements; None when it has them for none. Raises for some of them."""
    bits = [plane.bit(integers.digits_of(element)) for element in elements]
    found = [bit for bit in bits if bit is not None]
    if found and len(found) != len(bits):
        raise NoVectorCode("quants", f"a plane has bits for some of the elements {elements[0]} to {elements[-1]} only")
    return found or None


def _step(integers: Integers, first: int) -> tuple[Part, ...]:
    parts: list[Part] = []
    elements = range(first, first + LANES)
    for plane in integers.planes:
        bits = _bits(integers, elements, plane)
        if bits is None:
            continue
        part = _part(plane, bits)
        if part is None:
            where = f"field '{plane.field.name}'"
            raise NoVectorCode(
                "quants", f"the bits of elements {first} to {elements[-1]} in {where} are neither in consecutive bytes"
                " nor consecutive bits, nor in both halves of 16 bytes",
            )  # fmt: skip
        parts.append(part)
    return tuple(parts)


def _grid(integers: Integers) -> GridPlan:
    assert integers.grid is not None
    wanted = "a grid needs 512 points of 4 values from 0 to 15, low bits in consecutive bytes and ninth bits packed"
    points = range(0, integers.count, integers.grid.corners)
    if integers.grid.corners != 4 or len(integers.planes) != 2 or not all(0 <= v <= 15 for v in integers.grid.levels):
        raise NoVectorCode("quants", wanted)
    low, high = integers.planes
    low_bits, high_bits = _bits(integers, points, low), _bits(integers, points, high)
    if low.bits != 8 or high.bits != 1 or low_bits is None or high_bits is None or len(points) != 64:
        raise NoVectorCode("quants", wanted)
    if not _is_run(low_bits, 8) or not _is_run(high_bits, 1) or low_bits[0] % 8 or high_bits[0] % 8:
        raise NoVectorCode("quants", wanted)
    return GridPlan(low.field.offset + low_bits[0] // 8, high.field.offset + high_bits[0] // 8)


def _signs(integers: Integers) -> tuple[int, ...]:
    if integers.signs is None:
        return ()
    bits = _bits(integers, range(integers.count), integers.signs)
    if bits is None or not _is_run(bits, 1) or bits[0] % 8:
        raise NoVectorCode("quants", "signs must be consecutive bits")
    first = integers.signs.field.offset + bits[0] // 8
    return tuple(first + step * LANES // 8 for step in range(integers.count // LANES))


def _words(key: str, integers: Integers) -> tuple[Word, ...]:
    """Read eight scales as eight bytes; a plane may have them in consecutive bytes, or packed one after the other."""
    words: list[Word] = []
    for plane in integers.planes:
        bits = [plane.bit(integers.digits_of(element)) for element in range(integers.count)]
        elements = [element for element, bit in enumerate(bits) if bit is not None]
        found = [bit for bit in bits if bit is not None]
        first, count = elements[0], len(elements)
        step = found[1] - found[0] if count > 1 else 8
        packed = step == plane.bits and found[0] % 8 == 0 and count * step in (16, 32)
        if elements != list(range(first, first + count)) or not _is_run(found, step) or not (step == 8 or packed):
            raise NoVectorCode(key, f"'{key}' are neither in consecutive bytes nor packed one after the other")
        if count not in (4, 8):
            raise NoVectorCode(key, f"a plane of '{key}' has bits for {count} of them, not for 4 or 8")
        words.append(Word(plane.field.offset + found[0] // 8, count, step, found[0] % 8, plane.bits, plane.to, first))
    return tuple(words)


def _scales(key: str, integers: Integers) -> tuple[Word, ...]:
    if integers.table or integers.grid is not None or integers.signs is not None:
        raise NoVectorCode(key, f"'{key}' must be plain integers")
    if integers.count == 8 and not any(plane.is_signed for plane in integers.planes):
        low, high = integers.range
        if high - integers.offset > 255 or (key == "minimums" and low < 0):
            raise NoVectorCode(key, f"'{key}' are from {low} to {high}, and bytes from 0 to 255 are needed")
        return _words(key, integers)
    (plane, *others) = integers.planes
    bits = [plane.bit(integers.digits_of(element)) for element in range(integers.count)]
    whole = [bit for bit in bits if bit is not None]
    is_plain = plane.is_signed and not others and integers.times == 1 and integers.offset == 0
    if key == "scales" and integers.count == 16 and is_plain and _is_run(whole, 8):
        return (Word(plane.field.offset, 16, 8, 0, 8, 0, 0),)
    raise NoVectorCode(key, f"'{key}' must be eight unsigned integers, or sixteen whole signed bytes as scales")


def plan_vectors(spec: Format) -> VectorPlan:
    """Find the vector code of a format of integers. Raises `NoVectorCode` where there is none."""
    decode = spec.decode
    quants = decode.quants
    assert quants is not None
    if quants.times != 1:
        raise NoVectorCode("quants", "'times' is for scales")
    if len(quants.table) > CODES:
        raise NoVectorCode("quants", f"a table has at most {CODES} entries")
    steps = range(0, spec.elements, LANES)
    low, high = quants.range
    has_bias = spec.activation is Activation.INT8_256 and high - low <= _LARGEST_UNSIGNED
    return VectorPlan(
        steps=tuple(_step(quants, first) for first in steps) if quants.grid is None else (),
        grid=_grid(quants) if quants.grid is not None else None,
        signs=_signs(quants),
        bias=-low if has_bias else None,
        scales=_scales("scales", decode.scales) if decode.scales else (),
        minimums=_scales("minimums", decode.minimums) if decode.minimums else (),
    )
