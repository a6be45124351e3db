"""Weight formats at the edge: the shape of `specs/formats/*.yaml`, and what one file can be wrong about by itself."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field as Key

from strata_gen.diagnostics import Sink, did_you_mean
from strata_gen.edge.base import Edge, SpecKind, Text, file_by_file
from strata_gen.edge.fields import LAX, NAME, FieldEdge, Help, read_fields
from strata_gen.edge.findings import Findings
from strata_gen.edge.format_checks import check_activation, check_bits, check_encode, check_layouts, check_vectors
from strata_gen.edge.integers import IntegersEdge, read_integers
from strata_gen.load.document import Document
from strata_gen.model.fields import Field
from strata_gen.model.format import Activation, Decode, Encode, EncodeRule, Format

TypeName = Annotated[Text, Key(pattern=r"^[A-Z][A-Z0-9_]*$")]


class BlockEdge(Edge):
    """Size of one block."""

    elements: Annotated[int, Key(ge=1, le=1024, description="Values in a block.")]
    bytes: Annotated[int, Key(ge=1, le=4096, description="Bytes of a block.")]


class DecodeEdge(Edge):
    """value[i] = scale * scales[s] * quants[i] - minimum * minimums[s], in float32; or plain floats."""

    values: Annotated[Text | None, Key(description="Field with one float per element.")] = None
    quants: Annotated[IntegersEdge | None, Key(description="One integer per element.")] = None
    scale: Annotated[Text | None, Key(description="Field with one float, which multiplies all elements.")] = None
    scales: Annotated[IntegersEdge | None, Key(description="One integer per part of the block, times `scale`.")] = None
    minimum: Annotated[Text | None, Key(description="Field with one float, which `minimums` are in.")] = None
    minimums: Annotated[IntegersEdge | None, Key(description="One integer per part, whose product is taken off.")] = (
        None
    )


class EncodeEdge(Edge):
    """How floats become blocks."""

    rule: Annotated[
        EncodeRule,
        LAX,
        Key(
            description="`cast` converts; `absmax` and `peak` scale by the largest magnitude, `peak` with its sign; "
            "`nearest` does so by what the scale's field can hold, and looks values up; `fit` finds scales of least "
            "squared error."
        ),
    ]
    levels: Annotated[int | None, Key(ge=1, description="What the largest magnitude becomes.")] = None


class FormatEdge(Edge):
    """One weight format: the bits of a stored block."""

    name: Annotated[Text, Key(pattern=NAME, description="Name of the format, lower case.")]
    title: Annotated[Text, Key(min_length=1, description="Name as users know it.")]
    help: Help
    block: BlockEdge
    fields: Annotated[list[FieldEdge], Key(min_length=1, description="What a block holds.")]
    decode: DecodeEdge
    activation: Annotated[Activation, LAX, Key(description="The form in which dot kernels take their input.")]
    encode: Annotated[EncodeEdge | None, Key(description="How floats become blocks; left out when only read.")] = None
    safetensors: Annotated[TypeName | None, Key(description="The dtype that means the same bits in safetensors.")] = (
        None
    )
    gguf: Annotated[TypeName | None, Key(description="The tensor type that means the same bits in GGUF.")] = None
    layouts: Annotated[
        list[Text],
        Key(
            default_factory=list,
            description="Instruction sets (`isa` of a CPU level) whose kernels read rows side by side, arranged while "
            "loading. Others read blocks as they are stored.",
        ),
    ]


class _DecodeReader:
    def __init__(self, edge: FormatEdge, fields: tuple[Field, ...], findings: Findings) -> None:
        self.edge, self.findings = edge, findings
        self.fields = {field.name: field for field in fields}

    def float_field(self, key: str, name: str | None, count: int, why: str) -> Field | None:
        if name is None:
            return None
        field = self.fields.get(name)
        if field is None:
            hint = did_you_mean(name, self.fields)
            self.findings.error("F024", f"'{key}' names '{name}', which is no field", "decode", key, hint=hint)
            return None
        if not field.type.is_float:
            message = f"'{key}' needs a float, and field '{name}' is of type {field.type}"
            self.findings.error("F041", message, "decode", key)
        elif field.count != count:
            message = f"'{key}' needs {why}, and field '{name}' has {field.count}"
            self.findings.error("F025", message, "decode", key)
        return field

    def check_keys(self) -> None:
        edge = self.edge.decode
        if (edge.values is None) == (edge.quants is None):
            self.findings.error_at_key("F039", "there must be either 'values' or 'quants'", "decode")
        for key, needed in (("scales", "scale"), ("minimum", "minimums"), ("minimums", "minimum"), ("scale", "quants")):
            if getattr(edge, key) is not None and getattr(edge, needed) is None:
                self.findings.error_at_key("F039", f"'{key}' means nothing without '{needed}'", "decode", key)

    def read(self) -> Decode | None:
        before, edge, elements = self.findings.count, self.edge.decode, self.edge.block.elements
        self.check_keys()
        values = self.float_field(
            "values", edge.values, elements, f"one value for each of the block's {elements} elements"
        )
        scale = self.float_field("scale", edge.scale, 1, "one value")
        minimum = self.float_field("minimum", edge.minimum, 1, "one value")
        integers = {
            key: read_integers(part, key, elements, self.fields, self.findings)
            for key, part in (("quants", edge.quants), ("scales", edge.scales), ("minimums", edge.minimums))
            if part is not None
        }
        if self.findings.count > before:
            return None
        return Decode(values, integers.get("quants"), scale, integers.get("scales"), minimum, integers.get("minimums"))


def _convert(edge: FormatEdge, document: Document, sink: Sink) -> tuple[Format, ...]:
    findings = Findings(f"format '{edge.name}'", document, sink)
    before = findings.count
    fields = read_fields(edge.fields, edge.block.bytes, findings)
    # What follows from a wrong field is not worth a finding of its own.
    decode = _DecodeReader(edge, fields, findings).read() if fields is not None else None
    if fields is None or decode is None:
        return ()
    spec = Format(
        name=edge.name,
        title=edge.title,
        help=edge.help,
        elements=edge.block.elements,
        bytes=edge.block.bytes,
        fields=fields,
        decode=decode,
        activation=edge.activation,
        encode=Encode(edge.encode.rule, edge.encode.levels) if edge.encode is not None else None,
        safetensors=edge.safetensors,
        gguf=edge.gguf,
        layouts=tuple(edge.layouts),
        span=document.at("name"),
    )
    for check in (check_bits, check_encode, check_activation, check_layouts):
        check(spec, findings)
    if findings.count == before:
        check_vectors(spec, findings)
    return (spec,) if findings.count == before else ()


FORMAT: SpecKind[FormatEdge, Format] = SpecKind("format", "formats", "F", FormatEdge, file_by_file(_convert))
