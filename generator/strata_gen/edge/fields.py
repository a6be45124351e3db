"""Fields of a block at the edge: the keys, and whether they cover the block without gaps or overlaps."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field as Key

from strata_gen.diagnostics import Note
from strata_gen.edge.base import Edge, Text
from strata_gen.edge.findings import Findings
from strata_gen.model.fields import Field, FieldType

NAME = r"^[a-z][a-z0-9_]*$"
LAX = Key(strict=False)  # YAML has words, not enum members

Help = Annotated[Text, Key(min_length=1, description="One sentence for the reference page.")]


class FieldEdge(Edge):
    """Some values of one type inside a block, packed without padding."""

    name: Annotated[Text, Key(pattern=NAME, description="Name of the field.")]
    type: Annotated[FieldType, LAX, Key(description="Type of each value, little-endian.")]
    offset: Annotated[int, Key(ge=0, description="First byte inside the block.")]
    count: Annotated[int, Key(ge=1, le=1024, description="Number of values.")] = 1
    help: Help


def _check_names(fields: list[Field], block_bytes: int, findings: Findings) -> None:
    seen: dict[str, int] = {}
    for index, field in enumerate(fields):
        if field.name in seen:
            first = Note("first given here", findings.document.at("fields", seen[field.name], "name"))
            findings.error("F020", f"two fields are named '{field.name}'", "fields", index, "name", notes=(first,))
        seen.setdefault(field.name, index)
        if field.end > block_bytes:
            message = f"field '{field.name}' ends at byte {field.end} of a block of {block_bytes}"
            findings.error("F021", message, "fields", index)


def _check_cover(fields: list[Field], block_bytes: int, findings: Findings) -> None:
    order = sorted(range(len(fields)), key=lambda index: fields[index].offset)
    covered = 0
    for before, index in zip([None, *order], order, strict=False):
        field = fields[index]
        if before is not None and field.offset < covered:
            other = Note("the field before it", findings.document.at("fields", before))
            message = f"field '{field.name}' starts at byte {field.offset}, inside another field"
            findings.error("F022", message, "fields", index, notes=(other,))
        elif field.offset > covered:
            message = f"bytes {covered} to {field.offset - 1} of the block belong to no field"
            findings.error("F023", message, "fields", index, "offset")
        covered = max(covered, field.end)
    if covered < block_bytes:
        message = f"bytes {covered} to {block_bytes - 1} of the block belong to no field"
        findings.error("F023", message, "block", "bytes")


def read_fields(edges: list[FieldEdge], block_bytes: int, findings: Findings) -> tuple[Field, ...] | None:
    """Convert the fields. Returns None after reporting errors."""
    before = findings.count
    fields = [Field(edge.name, edge.type, edge.offset, edge.count, edge.help) for edge in edges]
    _check_names(fields, block_bytes, findings)
    _check_cover(fields, block_bytes, findings)
    return tuple(fields) if findings.count == before else None
