"""Integers packed into the fields of a block: which bits make which number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.model.fields import Field, FieldType


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of an element's index, which is written in mixed radix with the slowest digit first."""

    name: str
    count: int


@dataclass(frozen=True, slots=True)
class Plane:
    """Some bits of every integer.

    Element with digits n has them at bit `start + sum of strides[k] * n[k]` of `field` (bit 0 is the lowest of the
    first byte), and they become bits `to` and up of the number. `when` restricts a plane to elements with certain
    digits; None leaves a digit free.
    """

    field: Field
    bits: int
    start: int
    to: int
    strides: tuple[int, ...]
    when: tuple[int | None, ...]

    def bit(self, digits: tuple[int, ...]) -> int | None:
        """First bit of an element inside the field; None when the plane says nothing of it."""
        if any(wanted is not None and wanted != digit for wanted, digit in zip(self.when, digits, strict=True)):
            return None
        return self.start + sum(stride * digit for stride, digit in zip(self.strides, digits, strict=True))

    @property
    def is_signed(self) -> bool:
        """Whether the bits are a whole number in two's complement."""
        return self.field.type is FieldType.I8


@dataclass(frozen=True, slots=True)
class Grid:
    """Entries of several levels each. The planes make the number of an entry, the last digit picks in it."""

    levels: tuple[int, ...]
    entries: tuple[tuple[int, ...], ...]

    @property
    def corners(self) -> int:
        """Values of one entry."""
        return len(self.entries[0])

    def value(self, entry: int, corner: int) -> int:
        """Return one value of an entry."""
        return self.levels[self.entries[entry][corner]]


@dataclass(frozen=True, slots=True)
class Integers:
    """number[i] = lookup(bits of the planes) * times + offset, negated where the plane `signs` has a 1.

    The lookup is in `table`, in `grid`, or none.
    """

    digits: tuple[Digit, ...]
    planes: tuple[Plane, ...]
    signs: Plane | None = None
    table: tuple[int, ...] = ()
    grid: Grid | None = None
    times: int = 1
    offset: int = 0

    @property
    def count(self) -> int:
        """How many numbers there are."""
        result = 1
        for digit in self.digits:
            result *= digit.count
        return result

    @property
    def all_planes(self) -> tuple[Plane, ...]:
        """The planes of the numbers, then that of the signs."""
        return self.planes if self.signs is None else (*self.planes, self.signs)

    def digits_of(self, element: int) -> tuple[int, ...]:
        """Write an element's index in mixed radix."""
        result: list[int] = []
        for digit in reversed(self.digits):
            element, value = divmod(element, digit.count)
            result.insert(0, value)
        return tuple(result)

    def bits_of(self, element: int) -> Iterator[tuple[Plane, int]]:
        """Yield the planes of an element, and where its bits begin in each."""
        digits = self.digits_of(element)
        for plane in self.planes:
            bit = plane.bit(digits)
            if bit is not None:
                yield plane, bit

    @property
    def width(self) -> int:
        """Bits of the number before any lookup."""
        return max(plane.to + plane.bits for plane in self.planes)

    @property
    def range(self) -> tuple[int, int]:
        """Smallest and largest number."""
        if self.grid is not None:
            found = set(self.grid.levels)
        elif self.table:
            found = set(self.table)
        elif any(plane.is_signed for plane in self.planes):
            found = {-(1 << (self.width - 1)), (1 << (self.width - 1)) - 1}
        else:
            found = {0, (1 << self.width) - 1}
        found = {value * self.times + self.offset for value in found}
        if self.signs is not None:
            found |= {-value for value in found}
        return min(found), max(found)
