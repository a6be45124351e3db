"""How text is cut into words before merging, by the names that GGUF files use (`tokenizer.ggml.pre`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from tokenizers import Regex, decoders, normalizers, pre_tokenizers
from tokenizers import Tokenizer as Backend


@dataclass(frozen=True, slots=True)
class PreTokenizer:
    """The rules that a file names and does not spell out.

    `splits`: patterns, each of which cuts what the one before left, into what it matches and what lies between.
    `composes`: text is brought to Unicode NFC first, as the models of that name were trained.
    `whole_words`: a word that is a token becomes it, whether merges lead there or not.
    `adds_bos`: a text begins with the BOS token unless the file says otherwise.
    """

    splits: tuple[str, ...]
    composes: bool = False
    whole_words: bool = False
    adds_bos: bool = False

    def install(self, backend: Backend) -> None:
        """Set the parts of `backend` that come before and after its model."""
        if self.composes:
            backend.normalizer = normalizers.NFC()
        splits = [pre_tokenizers.Split(Regex(pattern), behavior="isolated") for pattern in self.splits]
        bytes_of = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.pre_tokenizer = pre_tokenizers.Sequence([*splits, bytes_of])
        backend.decoder = decoders.ByteLevel()


_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_BY_ONE_DIGIT = _WORDS % ""
_BY_THREE_DIGITS = _WORDS % "{1,3}"
_LLAMA3 = PreTokenizer((_BY_THREE_DIGITS,), whole_words=True, adds_bos=True)

PRE_TOKENIZERS: Mapping[str, PreTokenizer] = MappingProxyType(
    {
        "chatglm-bpe": PreTokenizer((_BY_THREE_DIGITS,)),
        "default": PreTokenizer((r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")),
        "glm4": PreTokenizer((_BY_THREE_DIGITS,), whole_words=True),
        "gpt-2": PreTokenizer((_GPT2,)),
        "llama-bpe": _LLAMA3,
        "llama-v3": _LLAMA3,
        "llama3": _LLAMA3,
        "qwen2": PreTokenizer((_BY_ONE_DIGIT,), composes=True),
    }
)
