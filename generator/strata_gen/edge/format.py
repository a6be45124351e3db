"""Weight formats at the edge: the shape of `specs/formats/*.yaml`, and what one file can be wrong about by itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field as Key

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.edge.base import Edge, SpecKind, Text
from strata_gen.load.document import Document
from strata_gen.model.format import (
    ACTIVATION_BLOCK,
    Activation,
    Decode,
    Encode,
    EncodeRule,
    Field,
    FieldType,
    Format,
)

_LAX = Key(strict=False)  # YAML has words, not enum members
_NAME = r"^[a-z][a-z0-9_]*$"

Help = Annotated[Text, Key(min_length=1, description="One sentence for the reference page.")]


class BlockEdge(Edge):
    """Size of one block."""

    elements: Annotated[int, Key(ge=1, le=1024, description="Values in a block.")]
    bytes: Annotated[int, Key(ge=1, le=4096, description="Bytes of a block.")]


class FieldEdge(Edge):
    """Some values of one type inside a block, packed without padding."""

    name: Annotated[Text, Key(pattern=_NAME, description="Name of the field.")]
    type: Annotated[FieldType, _LAX, Key(description="Type of each value, little-endian.")]
    offset: Annotated[int, Key(ge=0, description="First byte inside the block.")]
    count: Annotated[int, Key(ge=1, le=1024, description="Number of values.")] = 1
    help: Help


class DecodeEdge(Edge):
    """value[i] = quant[i] * scale, in float32."""

    quant: Annotated[Text, Key(description="Field with one value per element.")]
    scale: Annotated[Text | None, Key(description="Field with one value, which multiplies all elements.")] = None


class EncodeEdge(Edge):
    """How floats become blocks."""

    rule: Annotated[EncodeRule, _LAX, Key(description="`cast` converts; `absmax` scales by the largest magnitude.")]
    levels: Annotated[int | None, Key(ge=1, description="What the largest magnitude becomes (absmax).")] = None


class FormatEdge(Edge):
    """One weight format: the bits of a stored block."""

    name: Annotated[Text, Key(pattern=_NAME, description="Name of the format, lower case.")]
    title: Annotated[Text, Key(min_length=1, description="Name as users know it.")]
    help: Help
    block: BlockEdge
    fields: Annotated[list[FieldEdge], Key(min_length=1, description="What a block holds.")]
    decode: DecodeEdge
    activation: Annotated[Activation, _LAX, Key(description="The form in which dot kernels take their input.")]
    encode: EncodeEdge
    safetensors: Annotated[Text | None, Key(description="The dtype that means the same bits in safetensors.")] = None
    gguf: Annotated[Text | None, Key(description="The tensor type that means the same bits in GGUF.")] = None


class _Converter:
    def __init__(self, edge: FormatEdge, document: Document, sink: Sink) -> None:
        self.edge, self.document, self.sink = edge, document, sink
        self.fields = {
            field.name: Field(field.name, field.type, field.offset, field.count, field.help) for field in edge.fields
        }

    def error(self, code: str, message: str, *path: str | int, hint: str = "", notes: tuple[Note, ...] = ()) -> None:
        text = f"{message} in format '{self.edge.name}'"
        self.sink.error(code, text, self.document.at(*path), hint, notes)

    def check_fields(self) -> None:
        seen: dict[str, int] = {}
        for index, field in enumerate(self.edge.fields):
            if field.name in seen:
                first = Note("first given here", self.document.at("fields", seen[field.name], "name"))
                self.error("F020", f"two fields are named '{field.name}'", "fields", index, "name", notes=(first,))
            seen.setdefault(field.name, index)
            end = field.offset + field.count * field.type.bytes
            if end > self.edge.block.bytes:
                message = f"field '{field.name}' ends at byte {end} of a block of {self.edge.block.bytes}"
                self.error("F021", message, "fields", index)
        self.check_overlaps()

    def check_overlaps(self) -> None:
        order = sorted(range(len(self.edge.fields)), key=lambda index: self.edge.fields[index].offset)
        covered = 0
        for before, index in zip([None, *order], order, strict=False):
            field = self.edge.fields[index]
            if before is not None and field.offset < covered:
                other = Note("the field before it", self.document.at("fields", before))
                message = f"field '{field.name}' starts at byte {field.offset}, inside another field"
                self.error("F022", message, "fields", index, notes=(other,))
            elif field.offset > covered:
                message = f"bytes {covered} to {field.offset - 1} of the block belong to no field"
                self.error("F023", message, "fields", index, "offset")
            covered = max(covered, field.offset + field.count * field.type.bytes)
        if covered < self.edge.block.bytes:
            message = f"bytes {covered} to {self.edge.block.bytes - 1} of the block belong to no field"
            self.error("F023", message, "block", "bytes")

    def field(self, key: str, name: str, count: int, why: str) -> Field | None:
        field = self.fields.get(name)
        if field is None:
            hint = did_you_mean(name, self.fields)
            self.error("F024", f"'{key}' names '{name}', which is no field", "decode", key, hint=hint)
        elif field.count != count:
            message = f"'{key}' needs {why}, and field '{name}' has {field.count}"
            self.error("F025", message, "decode", key)
        return field

    def decode(self) -> Decode | None:
        edge, elements = self.edge.decode, self.edge.block.elements
        quant = self.field("quant", edge.quant, elements, f"one value for each of the block's {elements} elements")
        scale = self.field("scale", edge.scale, 1, "one value") if edge.scale is not None else None
        return Decode(quant, scale) if quant is not None else None

    def check_unused(self) -> None:
        used = {self.edge.decode.quant, self.edge.decode.scale}
        for index, field in enumerate(self.edge.fields):
            if field.name not in used:
                self.error("F026", f"field '{field.name}' is used by nothing", "fields", index, "name")

    def check_encode(self, decode: Decode) -> None:
        edge = self.edge.encode
        largest = decode.quant.type.largest_integer
        if edge.rule is EncodeRule.CAST:
            if decode.scale is not None or largest is not None:
                self.error("F027", "rule 'cast' is for formats of plain floats", "encode", "rule")
            if edge.levels is not None:
                self.error("F028", "rule 'cast' has no levels", "encode", "levels")
        elif decode.scale is None or largest is None:
            self.error("F027", "rule 'absmax' needs a scale and integer values", "encode", "rule")
        elif edge.levels is None:
            self.error("F028", "rule 'absmax' needs 'levels'", "encode")
        elif edge.levels > largest:
            message = f"{edge.levels} levels do not fit into {decode.quant.type} (at most {largest})"
            self.error("F028", message, "encode", "levels")

    def check_activation(self, decode: Decode) -> None:
        if self.edge.activation is Activation.FLOAT:
            if (
                self.edge.block.elements != 1
                or decode.scale is not None
                or decode.quant.type.largest_integer is not None
            ):
                self.error("F029", "activation 'float' is for plain floats, one per block", "activation")
        elif (
            self.edge.block.elements != ACTIVATION_BLOCK
            or decode.quant.type is not FieldType.I8
            or decode.scale is None
            or decode.scale.type is not FieldType.F16
        ):
            message = f"activation 'int8' is for blocks of {ACTIVATION_BLOCK} i8 values with an f16 scale"
            self.error("F029", message, "activation")


def _convert(edge: FormatEdge, document: Document, sink: Sink) -> tuple[Format, ...]:
    before = len(sink.diagnostics)
    converter = _Converter(edge, document, sink)
    converter.check_fields()
    decode = converter.decode()
    # What follows from a wrong field is not worth a finding of its own.
    if decode is None or len(sink.diagnostics) > before:
        return ()
    converter.check_unused()
    converter.check_encode(decode)
    converter.check_activation(decode)
    if len(sink.diagnostics) > before:
        return ()
    return (
        Format(
            name=edge.name,
            title=edge.title,
            help=edge.help,
            elements=edge.block.elements,
            bytes=edge.block.bytes,
            fields=tuple(converter.fields.values()),
            decode=decode,
            activation=edge.activation,
            encode=Encode(edge.encode.rule, edge.encode.levels),
            safetensors=edge.safetensors,
            gguf=edge.gguf,
            span=document.at("name"),
        ),
    )


FORMAT: SpecKind[FormatEdge, Format] = SpecKind("format", "formats", "F", FormatEdge, _convert)
