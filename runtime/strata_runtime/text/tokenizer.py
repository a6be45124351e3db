"""Tokenizer of a model folder: tokenizer.json and tokenizer_config.json."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from strata_runtime.errors import UserError
from strata_runtime.text.files import read_optional_object, read_text
from strata_runtime.text.protect import Protection

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

_NAMED_TOKENS = ("bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token")
_TOKEN_LISTS = ("additional_special_tokens", "extra_special_tokens")

_BYTE_NAME = re.compile("<0x([0-9A-F]{2})>")
_PRINTABLE = (*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100))
_OTHERS = (byte for byte in range(256) if byte not in _PRINTABLE)
_BYTE_OF = {**{chr(byte): byte for byte in _PRINTABLE}, **{chr(0x100 + at): byte for at, byte in enumerate(_OTHERS)}}
"""Bytes by the characters that stand for them in names of byte-level tokens."""


def token_text(value: object) -> str | None:
    """Text of a token as tokenizer_config.json writes it: text, or an object with `content`."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _declared_control_tokens(config: Mapping[str, object]) -> Iterable[str]:
    values = [config.get(name) for name in _NAMED_TOKENS]
    for name in _TOKEN_LISTS:
        listed = config.get(name)
        if isinstance(listed, list | dict):
            values += listed.values() if isinstance(listed, dict) else listed
    return filter(None, map(token_text, values))


class Tokenizer:
    """Text to token ids and back.

    Control tokens (those marked special, or named in tokenizer_config.json) are never read out of text that a user
    wrote: `encode` takes all its text literally, `encode_chat` finds those of the template alone.
    """

    def __init__(self, backend: Backend, config: Mapping[str, object], where: str) -> None:
        self.config = config
        self.where = where
        self._backend = backend
        self._lock = Lock()  # the backend's reading of control tokens is a switch, not an argument
        backend.no_truncation()
        backend.no_padding()
        vocabulary = backend.get_vocab(with_added_tokens=True)
        if not vocabulary:
            raise UserError(f"{where}: the vocabulary is empty")
        self._mark_control_tokens(vocabulary)
        self._control = {
            token.content: index for index, token in backend.get_added_tokens_decoder().items() if token.special
        }
        self._control_ids = frozenset(self._control.values())
        self.size = max(vocabulary.values()) + 1

    @classmethod
    def load(cls, folder: Path) -> Tokenizer:
        """Read the tokenizer of a model folder. Raises `UserError` when its files are missing or damaged."""
        path = folder / TOKENIZER_FILE
        text = read_text(path)
        try:
            backend = Backend.from_str(text)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as problem:  # the library's panics, on merges for one, are no Exception
            raise UserError(f"{path}: not a tokenizer: {problem}; download the file again") from problem
        return cls(backend, read_optional_object(folder / CONFIG_FILE), str(path))

    def _mark_control_tokens(self, vocabulary: Mapping[str, int]) -> None:
        known = {token.content: token for token in self._backend.get_added_tokens_decoder().values()}
        declared = {text for text in _declared_control_tokens(self.config) if text in vocabulary}
        for text in sorted(declared | {text for text, token in known.items() if token.special}):
            token = known.get(text, AddedToken(text))
            # Matched in raw text only: a normaliser must not turn other spellings into the token.
            fitted = AddedToken(
                text,
                single_word=token.single_word,
                lstrip=token.lstrip,
                rstrip=token.rstrip,
                normalized=False,
                special=True,
            )
            if text not in known or not token.special or token.normalized:
                self._backend.add_special_tokens([fitted])

    def check_fits(self, vocab_size: int) -> None:
        """Raise `UserError` when a token id has no row in a model of `vocab_size` tokens. Fewer tokens are fine."""
        if self.size > vocab_size:
            raise UserError(
                f"{self.where}: has {self.size} tokens, but the model has only {vocab_size}: "
                "the tokenizer belongs to another model"
            )

    @property
    def control_tokens(self) -> Mapping[str, int]:
        """Ids of the control tokens by text."""
        return self._control

    def has_text(self, token: int) -> bool:
        """Whether `token` stands for text: control tokens do not, nor do ids of the model beyond the tokenizer's."""
        return token < self.size and token not in self._control_ids

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token stands for, which may be part of a character; its name for one without text."""
        name = self._backend.id_to_token(token)
        if name is None:
            return b""
        if not self.has_text(token):
            return str(name).encode()
        if match := _BYTE_NAME.fullmatch(name):
            return bytes([int(match[1], 16)])
        # Behind another token: some decoders drop a text's first space.
        text = self.decode([token, token])[len(self.decode([token])) :]
        if "\ufffd" in text and all(character in _BYTE_OF for character in name):
            return bytes(_BYTE_OF[character] for character in name)
        return text.encode()

    def encode(self, text: str) -> list[int]:
        """Encode a prompt, all of it literal, plus what the tokenizer puts around every prompt (such as a BOS)."""
        return self._encode(text, control=False, around=True)

    def encode_chat(self, rendered: str, protection: Protection) -> list[int]:
        """Encode a rendered chat template: control tokens count except where `protection` marked a user's text."""
        ids: list[int] = []
        for text, is_plain in protection.segments(rendered):
            if text:
                ids += self._encode(text, control=not is_plain, around=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Decode ids; control tokens and ids without a token have no text. Bytes that are no UTF-8 become U+FFFD."""
        return str(self._backend.decode(ids, skip_special_tokens=True))

    def _encode(self, text: str, *, control: bool, around: bool) -> list[int]:
        try:
            text.encode()
        except UnicodeEncodeError as problem:
            raise UserError(f"the prompt is not valid Unicode (character {problem.start})") from problem
        with self._lock:
            self._backend.encode_special_tokens = not control
            # A batch of one: the backend lets other threads go on during a batch, and during nothing else.
            return list(self._backend.encode_batch_fast([text], add_special_tokens=around)[0].ids)
