"""JSON Schema of every kind of spec, from the pydantic models of the edge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from strata_gen.edge.base import SpecKind
from strata_gen.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def _tidied(node: Any) -> Any:
    """Drop generated titles, and let text be written as a number: `since: 8.10` is read as the text 8.10."""
    if isinstance(node, list):
        return [_tidied(item) for item in node]
    if not isinstance(node, dict):
        return node
    tidy = {key: _tidied(value) for key, value in node.items() if key != "title" or isinstance(value, dict)}
    if tidy.get("type") == "string" and not {"enum", "const"} & tidy.keys():
        tidy["type"] = ["string", "number"]
    return tidy


def schema_of(kind: SpecKind[Any, Any]) -> dict[str, Any]:
    """Return the JSON Schema of one file of `kind`."""
    schema: dict[str, Any] = _tidied(kind.edge.model_json_schema())
    return {"$schema": DIALECT, **schema, "title": f"{kind.name} specs ({kind.folder}/*.yaml)"}


def schema_files() -> Mapping[str, str]:
    """Return file name to text for every kind: keys in a fixed order, one newline at the end."""
    return {
        f"{kind.name}.schema.json": json.dumps(schema_of(kind), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for kind in KINDS
    }
