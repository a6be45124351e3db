"""Views of the weight formats: C++ traits and table, Python table."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.format import Field, Format
from strata_gen.resolve import Plan


@dataclass(frozen=True, slots=True)
class CppFormat:
    """One format in C++: `constants` are member declarations, `decode` an expression in `block` and `i`."""

    name: str
    type: str
    help: str
    elements: int
    bytes: int
    activation: str
    constants: tuple[str, ...]
    decode: str
    encode: str


@dataclass(frozen=True, slots=True)
class FormatsHeader:
    """What `formats.hpp` declares."""

    formats: tuple[CppFormat, ...]
    count: int


@dataclass(frozen=True, slots=True)
class FormatsSource:
    """What `formats.cpp` defines."""

    formats: tuple[CppFormat, ...]


@dataclass(frozen=True, slots=True)
class PythonFormat:
    """One format in Python; every field is an expression."""

    name: str
    title: str
    help: str
    elements: int
    bytes: int
    quant: str
    scale: str
    activation: str
    safetensors: str
    gguf: str


@dataclass(frozen=True, slots=True)
class FormatsModule:
    """What `formats.py` holds."""

    formats: tuple[PythonFormat, ...]


def _tag(field: Field) -> str:
    return f"field::{field.type.capitalize()}"


def _constants(spec: Format) -> tuple[str, ...]:
    quant, scale = spec.decode.quant, spec.decode.scale
    lines = [f"using Quant = {_tag(quant)};", f"static constexpr std::size_t kQuant = {quant.offset};"]
    if scale is not None:
        lines += [f"using Scale = {_tag(scale)};", f"static constexpr std::size_t kScale = {scale.offset};"]
    if spec.encode.levels is not None:
        lines.append(f"static constexpr float kLevels = {spec.encode.levels}.0f;")
    return tuple(lines)


def _decode(spec: Format) -> str:
    quant = "field::load<Quant>(block + kQuant, i)"
    return quant if spec.decode.scale is None else f"{quant} * field::load<Scale>(block + kScale, 0)"


def _cpp(spec: Format) -> CppFormat:
    return CppFormat(
        name=spec.name,
        type=spec.type_name,
        help=spec.help,
        elements=spec.elements,
        bytes=spec.bytes,
        activation=f"k{spec.activation.capitalize()}",
        constants=_constants(spec),
        decode=_decode(spec),
        encode=f"encode_{spec.encode.rule}",
    )


def _python_field(field: Field | None) -> str:
    return "None" if field is None else f"Field({str(field.type)!r}, {field.offset}, {field.count})"


def _python(spec: Format) -> PythonFormat:
    return PythonFormat(
        name=repr(spec.name),
        title=repr(spec.title),
        help=repr(spec.help),
        elements=spec.elements,
        bytes=spec.bytes,
        quant=_python_field(spec.decode.quant),
        scale=_python_field(spec.decode.scale),
        activation=repr(str(spec.activation)),
        safetensors=repr(spec.safetensors),
        gguf=repr(spec.gguf),
    )


def _header(plan: Plan) -> tuple[tuple[str, FormatsHeader], ...]:
    formats = tuple(map(_cpp, plan.specs.formats))
    return (("include/strata/gen/formats.hpp", FormatsHeader(formats, len(formats))),)


def _source(plan: Plan) -> tuple[tuple[str, FormatsSource], ...]:
    return (("src/gen/formats.cpp", FormatsSource(tuple(map(_cpp, plan.specs.formats)))),)


def _module(plan: Plan) -> tuple[tuple[str, FormatsModule], ...]:
    return (("python/formats.py", FormatsModule(tuple(map(_python, plan.specs.formats)))),)


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(spec.span.file for spec in plan.specs.formats)


EMITTERS = (
    Emitter("formats.hpp.j2", _header, _sources),
    Emitter("formats.cpp.j2", _source, _sources),
    Emitter("formats.py.j2", _module, _sources),
)
