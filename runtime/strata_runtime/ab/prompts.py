"""The prompts of a comparison, from a file."""

from __future__ import annotations

import json
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.request import Prompt
from strata_runtime.strict_json import json_type
from strata_runtime.whole_file import read_whole

_JSON = ".json"


def read_prompts(path: Path) -> tuple[Prompt, ...]:
    """Read one prompt per line, blank lines left out, or a JSON list of texts or of lists of token ids.

    JSON is what parses as a list, and what has a name that ends in `.json`. Raises `UserError` for a file that holds
    neither, and for one without prompts.
    """
    try:
        text = read_whole(path).decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserError(f"{path}: not UTF-8 text at byte {problem.start}") from None
    found = _listed(path, text)
    prompts = [line for line in text.splitlines() if line.strip()] if found is None else found
    if not prompts:
        raise UserError(f"{path}: holds no prompts")
    return tuple(prompts)


def _listed(path: Path, text: str) -> list[Prompt] | None:
    """Return the prompts of a JSON list, None for text that is meant as lines."""
    is_json = path.suffix.lower() == _JSON
    if not is_json and not text.lstrip().startswith("["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as problem:
        if is_json:
            raise UserError(f"{path}: not valid JSON: {problem}") from None
        return None
    if not isinstance(found, list):
        raise UserError(f"{path}: expected a JSON list of prompts, found {json_type(found)}")
    return [_prompt(f"{path}: prompt {at}", each) for at, each in enumerate(found, 1)]


def _prompt(where: str, found: object) -> Prompt:
    if isinstance(found, str):
        return found
    if not isinstance(found, list):
        raise UserError(f"{where} must be a text or a list of token ids, not {json_type(found)}")
    for at, token in enumerate(found):
        if isinstance(token, bool) or not isinstance(token, int):
            raise UserError(f"{where}: entry {at} is {json_type(token)}, not a token id")
    return found
