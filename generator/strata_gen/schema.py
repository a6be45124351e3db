"""JSON Schema of every kind of spec, from the pydantic models of the edge."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from strata_gen.edge.base import SpecKind
from strata_gen.kinds import KINDS

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(kind: SpecKind[Any, Any]) -> dict[str, Any]:
    """Return the JSON Schema of one file of `kind`."""
    schema: dict[str, Any] = kind.edge.model_json_schema()
    return {"$schema": DIALECT, **schema, "title": f"{kind.name} specs ({kind.folder}/*.yaml)"}


def schema_files() -> Mapping[str, str]:
    """Return file name to text for every kind: keys in a fixed order, one newline at the end."""
    return {
        f"{kind.name}.schema.json": json.dumps(schema_of(kind), indent=2, sort_keys=True, ensure_ascii=False) + "\n"
        for kind in KINDS
    }
