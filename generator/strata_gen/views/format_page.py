"""The view of the reference page of weight formats."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.model.format import Encode, EncodeRule, Field, Format
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
    """One format in the reference page."""

    name: str
    title: str
    help: str
    block: str
    bits: str
    activation: str
    safetensors: str
    gguf: str
    fields: tuple[FieldRow, ...]
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
    quant = f"{spec.decode.quant.name}[i]" if spec.elements > 1 else spec.decode.quant.name
    return quant if spec.decode.scale is None else f"{quant} * {spec.decode.scale.name}"


def _encode_text(encode: Encode) -> str:
    if encode.rule is EncodeRule.CAST:
        return "converted, ties to even"
    return f"scale = largest magnitude / {encode.levels}, values divided by it and rounded half away from zero"


def page_view(specs: SpecSet) -> FormatsPage:
    """Return the view of the reference page."""
    return FormatsPage(
        tuple(
            FormatPage(
                name=spec.name,
                title=spec.title,
                help=spec.help,
                block=f"{spec.elements} value{'s' if spec.elements > 1 else ''}, {spec.bytes} bytes",
                bits=f"{spec.bits_per_value:g}",
                activation=str(spec.activation),
                safetensors=spec.safetensors or "-",
                gguf=spec.gguf or "-",
                fields=tuple(map(_field_row, spec.fields)),
                decode=_decode_text(spec),
                encode=_encode_text(spec.encode),
            )
            for spec in specs.formats
        )
    )


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the spec files that the page depends on."""
    return tuple(spec.span.file for spec in specs.formats)
