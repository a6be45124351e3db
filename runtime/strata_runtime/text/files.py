"""Reading the text files of a model folder."""

from __future__ import annotations

from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.strict_json import read_object
from strata_runtime.whole_file import read_whole


def read_text(path: Path) -> str:
    """Read a UTF-8 file. Raises `UserError` when it is missing, unreadable or not UTF-8."""
    try:
        return read_whole(path).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise UserError(f"{path}: not UTF-8 text at byte {problem.start}") from None


def read_optional_object(path: Path) -> dict[str, object]:
    """Read a file that holds one JSON object; a file that does not exist counts as an empty one."""
    return read_object(path) if path.exists() else {}
