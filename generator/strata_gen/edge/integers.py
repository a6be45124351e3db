"""Packed integers at the edge: the keys under `quants`, `scales` and `minimums`, and what they can be wrong about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field as Key

from strata_gen.diagnostics import did_you_mean
from strata_gen.edge.base import Edge, Text
from strata_gen.edge.findings import Findings
from strata_gen.model.fields import Field
from strata_gen.model.integers import Digit, Grid, Integers, Plane

_DIGIT = r"^[a-z][a-z0-9_]*$"

DigitName = Annotated[Text, Key(pattern=_DIGIT)]
Strides = dict[DigitName, Annotated[int, Key(ge=0, le=1 << 16)]]
SmallInteger = Annotated[int, Key(ge=-128, le=127)]


class SignsEdge(Edge):
    """One bit of every integer: a 1 negates it."""

    field: Annotated[Text, Key(description="Field that the bits are in.")]
    start: Annotated[int, Key(ge=0, le=1 << 16, description="First bit of element 0.")] = 0
    strides: Annotated[Strides, Key(description="Bits from one value of a digit to the next.")]


class PlaneEdge(Edge):
    """Some bits of every integer."""

    field: Annotated[Text, Key(description="Field that the bits are in.")]
    bits: Annotated[int, Key(ge=1, le=8, description="How many bits, all in one byte.")]
    start: Annotated[int, Key(ge=0, le=1 << 16, description="First bit of element 0; bit 0 is a byte's lowest.")] = 0
    to: Annotated[int, Key(ge=0, le=15, description="Bit of the integer that the lowest of them becomes.")] = 0
    strides: Annotated[Strides, Key(description="Bits from one value of a digit to the next; 0 where not named.")]
    when: Annotated[
        dict[DigitName, Annotated[int, Key(ge=0)]],
        Key(default_factory=dict, description="Only elements with these digits have the bits."),
    ]


class GridEdge(Edge):
    """Points of several values each; the planes number a point, the last digit picks a value of it."""

    of_lines = frozenset({"points"})

    levels: Annotated[list[SmallInteger], Key(min_length=2, max_length=10, description="What the digits mean.")]
    points: Annotated[Text, Key(description="All points, apart by spaces; a decimal digit per value, naming a level.")]


class IntegersEdge(Edge):
    """Integers packed into fields; an element's index is split into digits, and planes say where its bits are."""

    digits: Annotated[
        dict[DigitName, Annotated[int, Key(ge=2, le=1024)]],
        Key(min_length=1, description="Digits of the element's index and their number of values, slowest first."),
    ]
    planes: Annotated[list[PlaneEdge], Key(min_length=1, description="Where the bits are.")]
    signs: Annotated[SignsEdge | None, Key(description="Bits that negate.")] = None
    table: Annotated[list[SmallInteger] | None, Key(min_length=2, description="What each integer stands for.")] = None
    grid: Annotated[GridEdge | None, Key(description="What each integer stands for, several values at a time.")] = None
    times: Annotated[int, Key(ge=1, le=16, description="Multiplies the integer.")] = 1
    offset: Annotated[int, Key(ge=-128, le=127, description="Is added to it then.")] = 0


class _Reader:
    def __init__(self, edge: IntegersEdge, key: str, fields: Mapping[str, Field], findings: Findings) -> None:
        self.edge, self.key, self.fields, self.findings = edge, key, fields, findings
        self.digits = tuple(Digit(name, count) for name, count in edge.digits.items())

    def error(self, code: str, message: str, *path: str | int, hint: str = "") -> None:
        self.findings.error(code, message, "decode", self.key, *path, hint=hint)

    def field(self, name: str, *path: str | int) -> Field | None:
        field = self.fields.get(name)
        if field is None:
            self.error(
                "F024", f"a plane names '{name}', which is no field", *path, hint=did_you_mean(name, self.fields)
            )
        elif field.type.is_float:
            self.error("F041", f"field '{name}' is of type {field.type}, and planes read i8 or u8", *path)
            return None
        return field

    def known_digits(self, names: Mapping[str, int], *path: str | int) -> None:
        for name in names:
            if name not in self.edge.digits:
                self.error("F032", f"'{name}' is no digit", *path, name, hint=did_you_mean(name, self.edge.digits))

    def plane(self, edge: PlaneEdge | SignsEdge, *path: str | int) -> Plane | None:
        field = self.field(edge.field, *path, "field")
        self.known_digits(edge.strides, *path, "strides")
        when = edge.when if isinstance(edge, PlaneEdge) else {}
        self.known_digits(when, *path, "when")
        for name, value in when.items():
            if value >= self.edge.digits.get(name, value + 1):
                self.error("F032", f"digit '{name}' is never {value}", *path, "when", name)
        if field is None:
            return None
        return Plane(
            field=field,
            bits=edge.bits if isinstance(edge, PlaneEdge) else 1,
            start=edge.start,
            to=edge.to if isinstance(edge, PlaneEdge) else 0,
            strides=tuple(edge.strides.get(digit.name, 0) for digit in self.digits),
            when=tuple(when.get(digit.name) for digit in self.digits),
        )

    def check_plane(self, integers: Integers, plane: Plane, *path: str | int) -> None:
        bits = [plane.bit(integers.digits_of(element)) for element in range(integers.count)]
        found = [bit for bit in bits if bit is not None]
        end = plane.field.count * 8
        if found and max(found) + plane.bits > end:
            message = f"a plane reads up to bit {max(found) + plane.bits - 1} of field '{plane.field.name}'"
            self.error("F033", f"{message}, which has {end}", *path)
        split = next((bit for bit in found if bit % 8 + plane.bits > 8), None)
        if split is not None:
            message = f"a plane reads {plane.bits} bits from bit {split} of field '{plane.field.name}'"
            self.error("F034", f"{message}, across the end of a byte", *path)
        if plane.is_signed and (plane.bits != 8 or len(integers.planes) > 1):
            self.error("F041", f"field '{plane.field.name}' is of type i8, which is read whole and alone", *path)

    def check_numbers(self, integers: Integers) -> None:
        """Every number must get each of its bits from one plane."""
        for element in range(integers.count):
            filled = 0
            for plane, _ in integers.bits_of(element):
                mask = ((1 << plane.bits) - 1) << plane.to
                if filled & mask:
                    message = f"two planes make the same bit of element {element} of '{self.key}'"
                    self.findings.error_at_key("F035", message, "decode", self.key, "planes")
                    return
                filled |= mask
            if filled != (1 << integers.width) - 1:
                missing = next(bit for bit in range(integers.width) if not filled >> bit & 1)
                message = f"no plane makes bit {missing} of element {element} of '{self.key}'"
                self.findings.error_at_key("F035", message, "decode", self.key, "planes")
                return

    def grid(self) -> Grid | None:
        edge = self.edge.grid
        if edge is None:
            return None
        points = [[int(digit) if digit.isdecimal() else -1 for digit in word] for word in edge.points.split()]
        for number, point in enumerate(points):
            if len(point) != self.digits[-1].count or not all(0 <= digit < len(edge.levels) for digit in point):
                message = (
                    f"point {number} of the grid is no {self.digits[-1].count} digits from 0 to {len(edge.levels) - 1}"
                )
                self.error("F037", message, "grid", "points")
                return None
        return Grid(tuple(edge.levels), tuple(map(tuple, points)))

    def check_lookup(self, integers: Integers) -> None:
        if self.edge.table is not None and self.edge.grid is not None:
            self.error("F037", "there is a table or a grid, not both,", "grid")
        name, size = ("table", len(integers.table)) if integers.table else ("grid", 0)
        if integers.grid is not None:
            size = len(integers.grid.entries)
        if size and size != 1 << integers.width:
            message = f"the {name} has {size} entries, and {integers.width} bits make {1 << integers.width} numbers"
            self.error("F037", message, name)

    def check_range(self, integers: Integers) -> None:
        low, high = integers.range
        if low < -128 or high > 127:
            message = f"'{self.key}' are from {low} to {high}, which no signed byte holds,"
            self.findings.error_at_key("F038", message, "decode", self.key)

    def read(self, elements: int) -> Integers | None:
        before = self.findings.count
        planes = [self.plane(plane, "planes", index) for index, plane in enumerate(self.edge.planes)]
        signs = self.plane(self.edge.signs, "signs") if self.edge.signs is not None else None
        grid = self.grid()
        integers = Integers(
            digits=self.digits,
            planes=tuple(plane for plane in planes if plane is not None),
            signs=signs,
            table=tuple(self.edge.table or ()),
            grid=grid,
            times=self.edge.times,
            offset=self.edge.offset,
        )
        if elements % integers.count or (self.key == "quants" and elements != integers.count):
            message = f"the digits of '{self.key}' make {integers.count} numbers for a block of {elements}"
            self.error("F031", message, "digits")
        if self.findings.count > before:
            return None
        for index, plane in enumerate(integers.planes):
            self.check_plane(integers, plane, "planes", index)
        if signs is not None:
            self.check_plane(integers, signs, "signs")
        self.check_numbers(integers)
        self.check_lookup(integers)
        self.check_range(integers)
        return integers if self.findings.count == before else None


def read_integers(
    edge: IntegersEdge, key: str, elements: int, fields: Mapping[str, Field], findings: Findings
) -> Integers | None:
    """Convert the value of `decode.<key>` in a block of `elements` values. Returns None after reporting errors."""
    return _Reader(edge, key, fields, findings).read(elements)
