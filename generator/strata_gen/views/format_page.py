"""The view of the reference page of weight formats."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.model.fields import Field
from strata_gen.model.format import Decode, Encode, EncodeRule, Format
from strata_gen.model.integers import Integers, Plane
from strata_gen.model.interleaved import plan_interleaved
from strata_gen.model.specset import SpecSet

PAGE_TEMPLATE = "formats.md.j2"


@dataclass(frozen=True, slots=True)
class FieldRow:
    """A row of a format's table of fields."""

    bytes: str
    name: str
    type: str
    help: str


@dataclass(frozen=True, slots=True)
class FormatPage:
    """One format in the reference page; `integers` say line by line where the packed numbers are."""

    name: str
    title: str
    help: str
    block: str
    bits: str
    activation: str
    safetensors: str
    gguf: str
    fields: tuple[FieldRow, ...]
    integers: tuple[str, ...]
    layouts: tuple[str, ...]
    decode: str
    encode: str


@dataclass(frozen=True, slots=True)
class FormatsPage:
    """The reference page of formats."""

    formats: tuple[FormatPage, ...]


def _field_row(field: Field) -> FieldRow:
    span = str(field.offset) if field.end == field.offset + 1 else f"{field.offset}-{field.end - 1}"
    return FieldRow(span, field.name, str(field.type) + (f" x {field.count}" if field.count > 1 else ""), field.help)


def _decode_text(spec: Format) -> str:
    decode = spec.decode
    if decode.values is not None:
        return f"{decode.values.name}[i]" if spec.elements > 1 else decode.values.name
    text = "quants[i]"
    part = f"[i / {spec.part}]"
    if decode.scale is not None:
        text = f"{decode.scale.name} * " + (f"scales{part} * " if decode.scales is not None else "") + text
    if decode.minimum is not None:
        text += f" - {decode.minimum.name} * minimums{part}"
    return text


def _plane(integers: Integers, plane: Plane) -> str:
    terms = [str(plane.start)] if plane.start else []
    for digit, stride in zip(integers.digits, plane.strides, strict=True):
        if stride:
            terms.append(digit.name if stride == 1 else f"{stride} {digit.name}")
    bits = "bit" if plane.bits == 1 else f"{plane.bits} bits"
    text = f"{bits} of `{plane.field.name}` from bit {' + '.join(terms) or 0}"
    where = [
        f"{digit.name} = {wanted}"
        for digit, wanted in zip(integers.digits, plane.when, strict=True)
        if wanted is not None
    ]
    if plane.to:
        text += f", as bit {plane.to}" if plane.bits == 1 else f", as bits {plane.to} and up"
    return text + (f", where {' and '.join(where)}" if where else "")


def _integers(decode: Decode) -> Iterator[str]:
    for key, integers in decode.integers:
        digits = ", ".join(f"{digit.name} {digit.count}" for digit in integers.digits)
        text = f"`{key}` (index in digits {digits}): {'; '.join(_plane(integers, plane) for plane in integers.planes)}"
        if integers.table:
            text += f"; looked up in {', '.join(map(str, integers.table))}"
        if integers.grid is not None:
            count, corner = len(integers.grid.entries), integers.digits[-1].name
            text += f"; the point of a grid of {count}, of which {corner} picks a value"
        if integers.times != 1:
            text += f"; times {integers.times}"
        if integers.offset:
            text += f"; {'plus' if integers.offset > 0 else 'minus'} {abs(integers.offset)}"
        if integers.signs is not None:
            text += f"; negated by the {_plane(integers, integers.signs)}"
        yield text


def _layouts(spec: Format) -> Iterator[str]:
    for isa in spec.layouts:
        plan, rows = plan_interleaved(spec), spec.interleaved_rows(isa)
        yield (
            f"Arranged for `{isa}`: {rows} rows side by side, {plan.bytes} bytes of each row a block "
            f"({plan.bytes / spec.bytes:.3f} of the stored size)"
        )


def _encode_text(encode: Encode | None) -> str:
    if encode is None:
        return "not by this project, which only reads it"
    match encode.rule:
        case EncodeRule.CAST:
            return "converted, ties to even"
        case EncodeRule.PEAK:
            return f"scale = value of largest magnitude / -{encode.levels}, values divided by it and rounded half up"
        case EncodeRule.ABSMAX:
            return f"scale = largest magnitude / {encode.levels}, values divided by it and rounded half away from zero"
        case EncodeRule.NEAREST:
            return f"scale = largest magnitude / {encode.levels} as its field holds it, values the nearest there are"
        case EncodeRule.FIT:
            return "the scales of least squared error among those tried for each part, values the nearest there are"


def page_view(specs: SpecSet) -> FormatsPage:
    """Return the view of the reference page."""
    return FormatsPage(
        tuple(
            FormatPage(
                name=spec.name,
                title=spec.title,
                help=spec.help,
                block=f"{spec.elements} value{'s' if spec.elements > 1 else ''}, {spec.bytes} bytes",
                bits=f"{spec.bits_per_value:.4g}",
                activation=str(spec.activation),
                safetensors=spec.safetensors or "-",
                gguf=spec.gguf or "-",
                fields=tuple(map(_field_row, spec.fields)),
                integers=tuple(_integers(spec.decode)),
                layouts=tuple(_layouts(spec)),
                decode=_decode_text(spec),
                encode=_encode_text(spec.encode),
            )
            for spec in specs.formats
        )
    )


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the spec files that the page depends on."""
    return tuple(spec.span.file for spec in specs.formats)
