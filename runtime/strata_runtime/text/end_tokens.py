"""Tokens that end a text, and the one that begins it, as a model folder declares them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.strict_json import json_type, read_object
from strata_runtime.text.files import read_optional_object
from strata_runtime.text.tokenizer import Tokenizer, token_text

CONFIG_FILE = "config.json"
GENERATION_FILE = "generation_config.json"


@dataclass(frozen=True, slots=True)
class EndTokens:
    """`end`: ids that end a text. `begin`: the id that an empty prompt becomes, None when the model has none."""

    end: frozenset[int]
    begin: int | None

    @classmethod
    def load(cls, folder: Path, tokenizer: Tokenizer, vocab_size: int) -> EndTokens:
        """Collect from config.json, generation_config.json and tokenizer_config.json; all of them count.

        Raises `UserError` for a file that cannot be read and for ids outside the vocabulary.
        """
        configs = {
            folder / CONFIG_FILE: read_object(folder / CONFIG_FILE),
            folder / GENERATION_FILE: read_optional_object(folder / GENERATION_FILE),
        }
        end = {token for path, config in configs.items() for token in _ids(config, "eos_token_id", path, vocab_size)}
        named = token_text(tokenizer.config.get("eos_token"))
        if named is not None and named in tokenizer.control_tokens:
            end.add(tokenizer.control_tokens[named])
        begin = [token for path, config in configs.items() for token in _ids(config, "bos_token_id", path, vocab_size)]
        return cls(frozenset(end), begin[0] if begin else None)


def _ids(config: Mapping[str, object], key: str, path: Path, vocab_size: int) -> list[int]:
    value = config.get(key)
    listed = value if isinstance(value, list) else [] if value is None else [value]
    ids = [item for item in listed if isinstance(item, int) and not isinstance(item, bool) and 0 <= item < vocab_size]
    if len(ids) < len(listed):
        found = ", ".join(map(json_type, listed[:3]))
        raise UserError(f"{path}: '{key}' must be token ids from 0 to {vocab_size - 1}, found {found}")
    return ids
