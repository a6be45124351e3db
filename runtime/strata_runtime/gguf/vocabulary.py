"""The vocabulary inside a GGUF file: token ids that mean something, chat templates, and a tokenizer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from strata_runtime.errors import UserError
from strata_runtime.gguf.metadata import Metadata

PREFIX = "tokenizer.ggml."
BPE = "gpt2"
"""The kind of tokenizer whose tokens are read: byte-level BPE."""
TEMPLATE_KEY = "tokenizer.chat_template"
NAMES_KEY = "tokenizer.chat_templates"
DEFAULT_TEMPLATE = "default"
TEMPLATES_AT_MOST = 1 << 10

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)
"""Kinds of tokens (`tokenizer.ggml.token_type`). 0 is one that nobody set, and counts as normal."""

END_KEYS = ("eos_token_id", "eot_token_id", "eom_token_id")
"""Keys of tokens that end a text."""
_ENDS = frozenset({"<|endoftext|>", "<|end_of_text|>", "<|im_end|>", "<|eot_id|>", "<|eom_id|>"})
"""Control tokens that end a text whether or not a file names them: many files name one of several."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What a file says of tokens.

    `model`: kind of its tokenizer, None without one. `size`: count of tokens that it lists. `tokens`: their texts as
    the file writes them, none where the kind of tokenizer has no use for them. `bos`, `eos`: ids that a text may be
    put between. `end`: ids that end a text. `templates`: sources of chat templates by name, `default` the one to use.
    """

    metadata: Metadata
    model: str | None
    size: int | None
    tokens: Sequence[str]
    bos: int | None
    eos: int | None
    end: frozenset[int]
    templates: Mapping[str, str]

    @property
    def where(self) -> str:
        """The file, for messages."""
        return str(self.metadata.path)


def ends_by_name(text: str) -> bool:
    """Whether a control token ends texts by its text alone."""
    return text in _ENDS


def token_kinds(metadata: Metadata, size: int) -> Sequence[int]:
    """Return the kind of each of `size` tokens, all of them normal when the file does not say. Raises `UserError`."""
    key = f"{PREFIX}token_type"
    array = metadata.array(key)
    if array is None:
        return [NORMAL] * size
    if array.count != size:
        raise UserError(f"{metadata.path}: '{key}' has {array.count} items for {size} tokens")
    kinds: list[int] = array.numbers().tolist()
    for index, kind in enumerate(kinds):
        if not (isinstance(kind, int) and 0 <= kind <= BYTE):
            raise UserError(
                f"{metadata.path}: '{key}': token {index} is of kind {kind}, which is none from 0 to {BYTE}"
            )
    return kinds


def _token_id(metadata: Metadata, key: str, size: int | None) -> int | None:
    key = PREFIX + key
    token = metadata.whole(key)
    if token is not None and not 0 <= token < (1 << 31 if size is None else size):
        raise metadata.wrong(key, f"a token id below {size}" if size is not None else "a token id")
    return token


def _templates(metadata: Metadata) -> dict[str, str]:
    names = metadata.array(NAMES_KEY)
    if names is not None and names.count > TEMPLATES_AT_MOST:
        raise UserError(f"{metadata.path}: '{NAMES_KEY}' has {names.count} names, more than {TEMPLATES_AT_MOST}")
    keys = {name: f"{TEMPLATE_KEY}.{name}" for name in (names.texts() if names is not None else ())}
    keys.setdefault(DEFAULT_TEMPLATE, TEMPLATE_KEY)
    found = {name: metadata.text(key) for name, key in keys.items()}
    if absent := [name for name, source in found.items() if source is None and name != DEFAULT_TEMPLATE]:
        raise UserError(f"{metadata.path}: '{NAMES_KEY}' names '{absent[0]}', but '{keys[absent[0]]}' is missing")
    return {name: source for name, source in found.items() if source is not None}


def _tokens(metadata: Metadata, model: str | None) -> Sequence[str]:
    array = metadata.array(f"{PREFIX}tokens")
    if model != BPE:
        return ()
    if array is None or not array.count:
        raise UserError(f"{metadata.path}: '{PREFIX}tokens' is {'empty' if array is not None else 'missing'}")
    return array.texts()


def read_vocabulary(metadata: Metadata) -> Vocabulary:
    """Read what a file says of its vocabulary, whatever the kind of its tokenizer. Raises `UserError`."""
    model = metadata.text(f"{PREFIX}model")
    listed = metadata.array(f"{PREFIX}tokens")
    size = listed.count if listed is not None else None
    tokens = _tokens(metadata, model)
    ids = {key: _token_id(metadata, key, size) for key in ("bos_token_id", *END_KEYS)}
    end = {token for key, token in ids.items() if key in END_KEYS and token is not None}
    kinds = token_kinds(metadata, len(tokens)) if tokens else ()
    end |= {index for index, text in enumerate(tokens) if ends_by_name(text) and kinds[index] == CONTROL}
    return Vocabulary(
        metadata=metadata,
        model=model,
        size=size,
        tokens=tokens,
        bos=ids["bos_token_id"],
        eos=ids["eos_token_id"],
        end=frozenset(end),
        templates=_templates(metadata),
    )
