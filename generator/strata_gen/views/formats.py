"""Views of the weight formats: one C++ header each, the C++ table, the Python table."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.fields import Field
from strata_gen.model.format import Activation, Format
from strata_gen.model.integers import Grid, Integers
from strata_gen.resolve import Plan
from strata_gen.views.format_interleaved import CppInterleaved, cpp_interleaved
from strata_gen.views.format_python import FormatsModule, python_format
from strata_gen.views.format_scalar import CppIntegers, cpp_integers, grid_name
from strata_gen.views.format_vectors import CppVectors, cpp_vectors

ACTIVATIONS = {Activation.FLOAT: "kFloat", Activation.INT8: "kInt8", Activation.INT8_256: "kInt8x256"}


@dataclass(frozen=True, slots=True)
class CppFormat:
    """One format in C++.

    `quant`, `scale` and `minimum` are functions of `block` and `i`, None where it has none; `constants` are lines.
    """

    name: str
    type: str
    help: str
    elements: int
    bytes: int
    part: int
    activation: str
    constants: tuple[str, ...]
    table: str
    grid: CppGrid | None
    quant: CppIntegers | None
    scale: CppIntegers | None
    minimum: CppIntegers | None
    scale_factor: str
    minimum_factor: str
    vectors: CppVectors | None
    interleaved: CppInterleaved | None


@dataclass(frozen=True, slots=True)
class FormatHeader:
    """What `formats/<name>.hpp` declares."""

    format: CppFormat


@dataclass(frozen=True, slots=True)
class TableRow:
    """One format in the C++ table; `encode` is an expression, `header` declares what it names."""

    name: str
    type: str
    header: str
    encode: str


@dataclass(frozen=True, slots=True)
class CppGrid:
    """The points of one grid: four bytes each, written as lines of hexadecimal numbers."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GridTable:
    """The table of one grid, made of its points and its `levels` in order."""

    name: str
    levels: str


@dataclass(frozen=True, slots=True)
class FormatsSource:
    """What `formats.cpp` defines."""

    formats: tuple[TableRow, ...]
    grids: tuple[GridTable, ...]


@dataclass(frozen=True, slots=True)
class TypeRow:
    """One format by its name and its C++ type."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class FormatTypes:
    """The C++ types of all formats, in the order of their ids."""

    formats: tuple[TypeRow, ...]


def _tag(field: Field) -> str:
    return "field::" + "".join(word.capitalize() for word in field.type.split("_"))


def _constants(spec: Format) -> tuple[str, ...]:
    decode = spec.decode
    lines = []
    if decode.values is not None:
        lines.append(f"using Value = {_tag(decode.values)};")
    if decode.scale is not None:
        lines.append(f"using Scale = {_tag(decode.scale)};")
    if decode.minimum is not None:
        lines.append(f"using Minimum = {_tag(decode.minimum)};")
    return tuple(lines)


def _factor(field: Field | None) -> str:
    return "" if field is None else f"field::load<{_tag(field)}>(block + {field.offset}, 0)"


def _cpp(spec: Format) -> CppFormat:
    decode = spec.decode

    def function(integers: Integers | None) -> CppIntegers | None:
        return cpp_integers(spec, integers) if integers is not None else None

    vectors = cpp_vectors(spec)
    return CppFormat(
        name=spec.name,
        type=spec.type_name,
        help=spec.help,
        elements=spec.elements,
        bytes=spec.bytes,
        part=spec.part,
        activation=ACTIVATIONS[spec.activation],
        constants=(*_constants(spec), *(vectors.constants if vectors is not None else ())),
        table=", ".join(map(str, decode.quants.table)) if decode.quants is not None else "",
        grid=_cpp_grid(spec, decode.quants.grid) if decode.quants is not None and decode.quants.grid else None,
        quant=function(decode.quants),
        scale=function(decode.scales),
        minimum=function(decode.minimums),
        scale_factor=_factor(decode.scale),
        minimum_factor=_factor(decode.minimum),
        vectors=vectors,
        interleaved=cpp_interleaved(spec),
    )


def _cpp_grid(spec: Format, grid: Grid) -> CppGrid:
    numbers = []
    for entry in range(len(grid.entries)):
        packed = sum((grid.value(entry, corner) & 0xFF) << (8 * corner) for corner in range(grid.corners))
        numbers.append(f"0x{packed:08x}")
    rows = [numbers[first : first + 8] for first in range(0, len(numbers), 8)]
    return CppGrid(grid_name(spec), tuple(", ".join(row) + "," for row in rows))


def _headers(plan: Plan) -> tuple[tuple[str, FormatHeader], ...]:
    return tuple(
        (f"include/strata/gen/formats/{spec.name}.hpp", FormatHeader(_cpp(spec))) for spec in plan.specs.formats
    )


def _row(spec: Format) -> TableRow:
    if spec.encode is None:
        return TableRow(spec.name, spec.type_name, f"formats/{spec.name}.hpp", "nullptr")
    encode = f"encode_{spec.encode.rule}<encoders::{spec.type_name}>"
    return TableRow(spec.name, spec.type_name, f"encoders/{spec.name}.hpp", encode)


def _source(plan: Plan) -> tuple[tuple[str, FormatsSource], ...]:
    grids = tuple(
        GridTable(grid_name(spec), ", ".join(map(str, spec.decode.quants.grid.levels)))
        for spec in plan.specs.formats
        if spec.decode.quants is not None and spec.decode.quants.grid is not None
    )
    return (("src/gen/formats.cpp", FormatsSource(tuple(map(_row, plan.specs.formats)), grids)),)


def _types(plan: Plan) -> tuple[tuple[str, FormatTypes], ...]:
    rows = tuple(TypeRow(spec.name, spec.type_name) for spec in plan.specs.formats)
    return (("include/strata/gen/format_types.hpp", FormatTypes(rows)),)


def _module(plan: Plan) -> tuple[tuple[str, FormatsModule], ...]:
    return (("python/formats.py", FormatsModule(tuple(map(python_format, plan.specs.formats)))),)


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(spec.span.file for spec in plan.specs.formats)


EMITTERS = (
    Emitter("format.hpp.j2", _headers, _sources),
    Emitter("format_types.hpp.j2", _types, _sources),
    Emitter("formats.cpp.j2", _source, _sources),
    Emitter("formats.py.j2", _module, _sources),
)
