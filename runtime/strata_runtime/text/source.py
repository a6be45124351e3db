"""The text side of a model: its tokenizer, end tokens and chat template, from its folder or from inside a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from strata_runtime.errors import UserError
from strata_runtime.gguf.files import first_part
from strata_runtime.gguf.reader import open_part
from strata_runtime.gguf.tokenizer import build_tokenizer, has_text
from strata_runtime.gguf.vocabulary import DEFAULT_TEMPLATE, TEMPLATE_KEY, Vocabulary, read_vocabulary
from strata_runtime.text.chat import ChatTemplate
from strata_runtime.text.end_tokens import EndTokens
from strata_runtime.text.tokenizer import Tokenizer


class TextSource(Protocol):
    """What is known of a model's text. `tokenizer` is None for a model that works with token ids alone."""

    @property
    def tokenizer(self) -> Tokenizer | None:
        """The tokenizer."""

    def require_tokenizer(self) -> Tokenizer:
        """Return the tokenizer. Raises `UserError` saying why there is none."""

    def ends(self, vocab_size: int) -> EndTokens:
        """Return what ends and begins texts. Raises `UserError` for ids outside the vocabulary."""

    def chat_template(self) -> ChatTemplate:
        """Compile the chat template. Raises `UserError` when there is none."""


@dataclass(frozen=True, slots=True)
class FolderText:
    """Text of a model folder: tokenizer.json and the files beside it."""

    folder: Path
    tokenizer: Tokenizer

    def require_tokenizer(self) -> Tokenizer:
        """Return the tokenizer: a folder always has one."""
        return self.tokenizer

    def ends(self, vocab_size: int) -> EndTokens:
        """Collect from the folder's configs."""
        return EndTokens.load(self.folder, self.tokenizer, vocab_size)

    def chat_template(self) -> ChatTemplate:
        """Read the folder's template."""
        return ChatTemplate.load(self.folder, self.tokenizer)


@dataclass(frozen=True, slots=True)
class GgufText:
    """Text inside a GGUF file."""

    vocabulary: Vocabulary
    tokenizer: Tokenizer | None

    def require_tokenizer(self) -> Tokenizer:
        """Return the tokenizer. Raises `UserError` for a file without one."""
        return self.tokenizer or Tokenizer(build_tokenizer(self.vocabulary), {}, self.vocabulary.where)

    def ends(self, vocab_size: int) -> EndTokens:
        """Return what the vocabulary says."""
        vocabulary = self.vocabulary
        begin = [] if vocabulary.bos is None else [vocabulary.bos]
        for token in (*vocabulary.end, *begin):
            if token >= vocab_size:
                raise UserError(f"{vocabulary.where}: token {token} is outside the vocabulary of {vocab_size}")
        return EndTokens(vocabulary.end, vocabulary.bos)

    def chat_template(self) -> ChatTemplate:
        """Compile the file's default template."""
        self.require_tokenizer()
        vocabulary = self.vocabulary
        source = vocabulary.templates.get(DEFAULT_TEMPLATE)
        if source is None:
            raise UserError(
                f"{vocabulary.where}: the model has no chat template ('{TEMPLATE_KEY}' is missing); "
                "give it a plain prompt instead"
            )
        named = {"bos_token": vocabulary.bos, "eos_token": vocabulary.eos}
        variables = {name: vocabulary.tokens[token] for name, token in named.items() if token is not None}
        return ChatTemplate.compile(source, variables, vocabulary.where)


def open_text(path: Path) -> TextSource:
    """Read the text side of a model folder or a GGUF file. Raises `UserError` for what is wrong with it."""
    if path.is_dir():
        return FolderText(path, Tokenizer.load(path))
    vocabulary = read_vocabulary(open_part(first_part(path), {}).metadata)
    if not has_text(vocabulary):
        return GgufText(vocabulary, None)
    return GgufText(vocabulary, Tokenizer(build_tokenizer(vocabulary), {}, vocabulary.where))
