"""The scalar side of a weight format in C++: expressions for one integer of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.model.format import Format
from strata_gen.model.integers import Digit, Integers, Plane


@dataclass(frozen=True, slots=True)
class CppIntegers:
    """A function of C++ that returns number `i` of `block`: lines that come first, and what is returned."""

    lines: tuple[str, ...]
    result: str


def digit_variable(digit: Digit) -> str:
    """Name of the C++ variable that holds a digit; none of the generated functions' own names begins like this."""
    return f"digit_{digit.name}"


def _digits(integers: Integers) -> Iterator[str]:
    below = integers.count
    for digit in integers.digits:
        above, below = below, below // digit.count
        value = f"i / {below}" if below > 1 else "i"
        if above < integers.count:
            value += f" % {digit.count}"
        yield f"const std::size_t {digit_variable(digit)} = {value};"


def address(integers: Integers, plane: Plane) -> str:
    """Return the first bit of a plane's bits, of its digits."""
    terms = [str(plane.start)] if plane.start else []
    for digit, stride in zip(integers.digits, plane.strides, strict=True):
        if stride:
            terms.append(digit_variable(digit) if stride == 1 else f"{stride} * {digit_variable(digit)}")
    return " + ".join(terms) or "0"


def condition(integers: Integers, plane: Plane) -> str:
    """Return when a plane says something of a number; empty for always."""
    return " && ".join(
        f"{digit_variable(digit)} == {wanted}"
        for digit, wanted in zip(integers.digits, plane.when, strict=True)
        if wanted is not None
    )


def _bits(integers: Integers, plane: Plane) -> str:
    text = f"field::bits(block + {plane.field.offset}, {address(integers, plane)}, {plane.bits})"
    where = condition(integers, plane)
    if where:
        text = f"({where} ? {text} : 0)"
    return f"{text} << {plane.to}" if plane.to else text


def _raw(integers: Integers) -> str:
    text = " | ".join(_bits(integers, plane) for plane in integers.planes)
    if any(plane.is_signed for plane in integers.planes):
        return f"static_cast<std::int8_t>({text})"
    return f"static_cast<int>({text})"


def digit_lines(integers: Integers, planes: tuple[Plane, ...], also: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return the statements that split `i` into the digits that `planes` use, and those in `also`."""
    used = also | {
        digit.name
        for plane in planes
        for digit, stride, wanted in zip(integers.digits, plane.strides, plane.when, strict=True)
        if stride or wanted is not None
    }
    return tuple(line for digit, line in zip(integers.digits, _digits(integers), strict=True) if digit.name in used)


def cpp_integers(spec: Format, integers: Integers) -> CppIntegers:
    """Return the function that reads one number."""
    corner = frozenset({integers.digits[-1].name}) if integers.grid is not None else frozenset[str]()
    lines = list(digit_lines(integers, integers.all_planes, corner))
    lines.append(f"const int raw = {_raw(integers)};")
    result = "raw"
    if integers.table:
        result = "table()[static_cast<std::size_t>(raw)]"
    elif integers.grid is not None:
        point = f"{grid_name(spec)}_point(static_cast<std::size_t>(raw))"
        result = f"static_cast<int>({point} >> (8 * {digit_variable(integers.digits[-1])}) & 0xffu)"
    if integers.times != 1:
        result += f" * {integers.times}"
    if integers.offset:
        result += f" {'-' if integers.offset < 0 else '+'} {abs(integers.offset)}"
    if integers.signs is not None:
        lines.append(f"const int number = {result};")
        result = f"{_bits(integers, integers.signs)} != 0 ? -number : number"
    return CppIntegers(tuple(lines), result)


def grid_name(spec: Format) -> str:
    """Name of the C++ table of a grid's points."""
    return f"{spec.name}_grid"
