"""Whether a file says what was to be converted, by reading it back."""

from __future__ import annotations

import math
from pathlib import Path

from strata_runtime.checkpoint.config import Config
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.checkpoint.weights import match_tensors
from strata_runtime.errors import UserError
from strata_runtime.families import ConfigValue
from strata_runtime.provider import Provider
from strata_runtime.text.source import open_text
from strata_runtime.text.tokenizer import Tokenizer

_SAMPLE = (
    "Don't we'LL 1 12 1234567 3.14159\n\n\tdef f(x):\n        return x**2  # größer cafe\u0301\r\n"
    "   中文字符，混合 日本語テキスト ½ ٣٤ 🙂👩‍👧 \x00\u200b <|user|> !!! ...  "
)


def _agree(value: ConfigValue, other: ConfigValue) -> bool:
    """Whether a file's value is that of a config; a file has numbers in single precision, and one end token of all."""
    if isinstance(value, tuple):
        return True
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-6)
    return value == other


def check_network(path: Path, config: Config, provider: Provider) -> None:
    """Read the tables of a file. Raises `UserError` when they do not say of the network what `config` does."""
    made = open_checkpoint(path, provider.families, provider.formats)
    match_tensors(made.tensors, made.config, made.layout)
    for key, value in config.values.items():
        found = made.config.values[key]
        if not _agree(value, found):
            raise UserError(f"{config.path}: '{key}' is {value}, but in GGUF files it would be {found}")


def check_text(path: Path, tokenizer: Tokenizer) -> None:
    """Raise `UserError` when the tokenizer inside a file does not give the ids that `tokenizer` gives."""
    made = open_text(path).require_tokenizer()
    spelled = _SAMPLE + "".join(tokenizer.control_tokens)
    if made.control_tokens != tokenizer.control_tokens or made.encode(spelled) != tokenizer.encode(spelled):
        raise UserError(f"{tokenizer.where}: the tokenizer has no form in GGUF files that gives the same ids")
