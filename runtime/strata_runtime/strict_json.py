"""JSON from files that nobody vouches for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

from strata_runtime.errors import UserError
from strata_runtime.whole_file import read_whole

BYTES_AT_MOST = 1 << 26
VALUES_AT_MOST = 1 << 21
"""Commas and brackets of one text: each may become an object that is many times larger."""
_PARTS = (b",", b"[", b"{")


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


def _no_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    result: dict[str, object] = {}
    for key, value in pairs:
        if key in result:
            raise ValueError(f"the key '{key}' is given twice")
        result[key] = value
    return result


def parse_object(data: bytes, what: str) -> dict[str, object]:
    """Parse one JSON object. `what` names the text in errors.

    Raises `UserError` for anything else: other encodings than UTF-8, NaN and infinities, duplicate keys, deep nesting,
    and for more than any model needs.
    """
    if len(data) > BYTES_AT_MOST or sum(map(data.count, _PARTS)) > VALUES_AT_MOST:
        raise UserError(f"{what}: holds more than any model needs ({len(data)} bytes)")
    try:
        found = json.loads(data.decode("utf-8"), parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except UnicodeDecodeError as problem:
        raise UserError(f"{what}: not UTF-8 text at byte {problem.start}") from None
    except (ValueError, RecursionError) as problem:
        raise UserError(f"{what}: not valid JSON: {problem}") from None
    if not isinstance(found, dict):
        raise UserError(f"{what}: expected a JSON object, found {json_type(found)}")
    return found


def read_object(path: Path) -> dict[str, object]:
    """Read one JSON object from a file. Raises `UserError`; see `parse_object`."""
    return parse_object(read_whole(path), str(path))


def json_type(value: object) -> str:
    """Name the JSON type of a value, with the value itself where it is short."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float | str):
        text = json.dumps(value) if isinstance(value, str) else repr(value)
        return text if len(text) <= 40 else text[:37] + "..."
    return "a list" if isinstance(value, list) else "an object"
