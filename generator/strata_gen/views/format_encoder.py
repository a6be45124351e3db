"""The encoders of weight formats in C++: what a rule must know of a block, and functions that write its bits."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.format import EncodeRule, Format
from strata_gen.model.integers import Integers, Plane
from strata_gen.resolve import Plan
from strata_gen.views.format_scalar import address, condition, digit_lines, grid_name


@dataclass(frozen=True, slots=True)
class CppStore:
    """The function `store_<name>`: the statements that write number `i`, given as `raw`, into a block of zeros."""

    name: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CppEncoder:
    """What `encoders/<format>.hpp` declares; `header` is what its numbers are found by, `constants` are lines."""

    format: str
    type: str
    header: str
    constants: tuple[str, ...]
    stores: tuple[CppStore, ...]


def _steps(integers: Integers) -> str:
    low, high = integers.range
    arguments = [low, high, integers.offset, integers.times]
    return f"quants::Steps<{', '.join(map(str, arguments))}>"


def _quants(spec: Format, integers: Integers) -> str:
    if integers.grid is not None:
        levels = sorted(set(integers.grid.levels))
        return f"quants::Points<formats::{grid_name(spec)}, {', '.join(map(str, levels))}>"
    if integers.table:
        numbers = (number * integers.times + integers.offset for number in integers.table)
        return f"quants::Table<{', '.join(map(str, numbers))}>"
    return _steps(integers)


def _constants(spec: Format) -> tuple[str, ...]:
    assert spec.encode is not None
    decode = spec.decode
    lines = []
    if spec.encode.levels is not None:
        lines.append(f"static constexpr float kLevels = {spec.encode.levels}.0f;")
    if spec.encode.rule in (EncodeRule.NEAREST, EncodeRule.FIT):
        assert decode.quants is not None
        lines.append(f"using Quants = {_quants(spec, decode.quants)};")
    lines += [
        f"using {name} = {_steps(integers)};"
        for name, integers in (("Scales", decode.scales), ("Minimums", decode.minimums))
        if integers is not None
    ]
    return tuple(lines)


def _store(name: str, integers: Integers, planes: tuple[Plane, ...]) -> CppStore:
    lines = list(digit_lines(integers, planes))
    for plane in planes:
        value = f"raw >> {plane.to}" if plane.to else "raw"
        call = f"field::store_bits(block + {plane.field.offset}, {address(integers, plane)}, {plane.bits}, {value});"
        where = condition(integers, plane)
        lines.append(f"if ({where}) {call}" if where else call)
    return CppStore(name, tuple(lines))


def _stores(spec: Format) -> tuple[CppStore, ...]:
    found = []
    for key, integers in spec.decode.integers:
        found.append(_store(key.removesuffix("s"), integers, integers.planes))
        if integers.signs is not None:
            found.append(_store("sign", integers, (integers.signs,)))
    return tuple(found)


def cpp_encoder(spec: Format) -> CppEncoder:
    """Return what the encoder of a format is made of."""
    quants = spec.decode.quants
    return CppEncoder(
        format=spec.name,
        type=spec.type_name,
        header="strata/grid_quants.hpp" if quants is not None and quants.grid is not None else "strata/quants.hpp",
        constants=_constants(spec),
        stores=_stores(spec),
    )


def _headers(plan: Plan) -> tuple[tuple[str, CppEncoder], ...]:
    return tuple(
        (f"include/strata/gen/encoders/{spec.name}.hpp", cpp_encoder(spec))
        for spec in plan.specs.formats
        if spec.encode is not None
    )


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(spec.span.file for spec in plan.specs.formats)


EMITTERS = (Emitter("encoder.hpp.j2", _headers, _sources),)
