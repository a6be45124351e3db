"""From the vocabulary inside a GGUF file to a tokenizer. Byte-level BPE alone: what most current models use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import cast

from tokenizers import AddedToken, models, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from strata_runtime.errors import UserError
from strata_runtime.gguf.metadata import Metadata, shown
from strata_runtime.gguf.pretokenizers import PRE_TOKENIZERS, PreTokenizer
from strata_runtime.gguf.vocabulary import BPE, CONTROL, PREFIX, UNKNOWN, UNUSED, USER_DEFINED, Vocabulary, token_kinds
from strata_runtime.nearest import nearest

_NO_TEXT = ("none", "no_vocab", "test")
_UNSUPPORTED_FLAGS = ("add_space_prefix", "remove_extra_whitespaces", "add_sep_token")


def has_text(vocabulary: Vocabulary) -> bool:
    """Whether a file says that its tokens stand for text."""
    return vocabulary.model is not None and vocabulary.model not in _NO_TEXT


def _check_model(vocabulary: Vocabulary) -> None:
    model, where = vocabulary.model, vocabulary.where
    if model is None or not has_text(vocabulary):
        found = "is missing" if model is None else f"is {shown(model)}"
        raise UserError(f"{where}: the file has no tokenizer ('{PREFIX}model' {found}): give token ids instead of text")
    if model != BPE:
        kind = "SentencePiece" if model == "llama" else "of another kind"
        raise UserError(
            f"{where}: the tokenizer {shown(model)} ({kind}) is not supported, only '{BPE}' (byte-level BPE) is: "
            "give token ids, or use a safetensors folder with its tokenizer.json"
        )
    for key in _UNSUPPORTED_FLAGS:
        if vocabulary.metadata.flag(PREFIX + key):
            raise UserError(f"{where}: '{PREFIX}{key}' is true, which is not supported with '{BPE}'")


def _pre_tokenizer(metadata: Metadata) -> PreTokenizer:
    key = f"{PREFIX}pre"
    name = metadata.text(key)
    if name is not None and name in PRE_TOKENIZERS:
        return PRE_TOKENIZERS[name]
    known = ", ".join(PRE_TOKENIZERS)
    if name is None:
        raise UserError(
            f"{metadata.path}: '{key}' is missing: without it text would be split by guess; convert the model again "
            f"(known: {known})"
        )
    near = nearest(name, PRE_TOKENIZERS)
    hint = f" (did you mean '{near}'?)" if near else ""
    raise UserError(f"{metadata.path}: '{key}' is {shown(name)}, which is not known{hint}; known: {known}")


def _token_ids(metadata: Metadata, tokens: Sequence[str], kinds: Sequence[int]) -> dict[str, int]:
    """Ids by text, without those that stand for no text."""
    ids: dict[str, int] = {}
    for index, (text, kind) in enumerate(zip(tokens, kinds, strict=True)):
        if not text or kind == UNUSED:
            continue
        if text in ids:
            raise UserError(f"{metadata.path}: tokens {ids[text]} and {index} are both {shown(text)}")
        ids[text] = index
    absent = next((byte for byte in sorted(pre_tokenizers.ByteLevel.alphabet()) if byte not in ids), None)
    if absent is not None:
        raise UserError(f"{metadata.path}: no token for the byte written '{absent}': text would be lost")
    return ids


def _bad_merge(pairs: Iterable[tuple[str, ...]], ids: Mapping[str, int]) -> str:
    seen: set[tuple[str, ...]] = set()
    for index, pair in enumerate(pairs):
        if len(pair) != 2 or not all(part in ids for part in (*pair, "".join(pair))):
            return f"item {index} is {shown(' '.join(pair))}, which does not join two tokens to a third"
        if pair in seen:
            return f"item {index}, {shown(' '.join(pair))}, is there twice"
        seen.add(pair)
    raise AssertionError("called without a bad merge")


def _merges(metadata: Metadata, ids: Mapping[str, int]) -> list[tuple[str, str]]:
    array = metadata.array(f"{PREFIX}merges")
    if array is None:
        raise UserError(f"{metadata.path}: '{PREFIX}merges' is missing")
    # An empty array often has no sensible type.
    pairs = [tuple(text.split(" ")) for text in array.texts()] if array.count else []
    # The library panics on some of what it should refuse. Sets are several times faster than a look at each.
    parts, joined = set(chain.from_iterable(pairs)), set(map("".join, pairs))
    if set(map(len, pairs)) - {2} or not parts | joined <= ids.keys() or len(set(pairs)) < len(pairs):
        raise UserError(f"{metadata.path}: '{PREFIX}merges': {_bad_merge(pairs, ids)}")
    return cast(list[tuple[str, str]], pairs)


def _check_unwritable(
    backend: Backend, pre: PreTokenizer, control: Iterable[str], merges: Iterable[tuple[str, str]], where: str
) -> None:
    """Refuse control tokens that ordinary text would become."""
    joined = set(map("".join, merges))
    for text in control:
        pieces = backend.pre_tokenizer.pre_tokenize_str(text)
        if text in joined or (pre.whole_words and len(pieces) == 1 and pieces[0][0] == text):
            raise UserError(f"{where}: the control token {shown(text)} can be written as ordinary text")


def _surroundings(vocabulary: Vocabulary, tokens: Sequence[str], pre: PreTokenizer) -> processors.PostProcessor | None:
    """What is put around every text: BOS and EOS, when the file asks for them."""
    metadata, around = vocabulary.metadata, []
    for key, id_key, token, default in (
        ("add_bos_token", "bos_token_id", vocabulary.bos, pre.adds_bos),
        ("add_eos_token", "eos_token_id", vocabulary.eos, False),
    ):
        flag = metadata.flag(PREFIX + key)
        wanted = default if flag is None else flag
        if wanted and token is None:
            raise UserError(f"{metadata.path}: every text needs the token '{PREFIX}{id_key}', which is missing")
        around.append((tokens[token], token) if wanted and token is not None else None)
    before, after = around
    if before is None and after is None:
        return None
    # Names of the template's own: a token's text may have any form.
    single = [*(["B"] if before else []), "$A", *(["E"] if after else [])]
    special = [
        {"id": name, "ids": [item[1]], "tokens": [item[0]]} for name, item in (("B", before), ("E", after)) if item
    ]
    return processors.TemplateProcessing(single=single, pair=[*single, "$B"], special_tokens=special)


def build_tokenizer(vocabulary: Vocabulary) -> Backend:
    """Build the tokenizer that a file describes.

    Control tokens are special tokens of it, user-defined ones are found in every text, unused ones do not exist.
    Raises `UserError` when the file has none, one of another kind, or one that is not sound.
    """
    _check_model(vocabulary)
    metadata, where = vocabulary.metadata, vocabulary.where
    pre = _pre_tokenizer(metadata)
    tokens = vocabulary.tokens
    kinds = token_kinds(metadata, len(tokens))
    ids = _token_ids(metadata, tokens, kinds)
    merges = _merges(metadata, ids)
    backend = Backend(models.BPE(vocab=ids, merges=merges, ignore_merges=pre.whole_words))
    pre.install(backend)
    control = [text for text, index in ids.items() if kinds[index] in {CONTROL, UNKNOWN}]
    _check_unwritable(backend, pre, control, merges, where)
    backend.add_special_tokens([AddedToken(text, normalized=False, special=True) for text in control])
    plain = [text for text, index in ids.items() if kinds[index] == USER_DEFINED]
    backend.add_tokens([AddedToken(text, normalized=False) for text in plain])
    if (surroundings := _surroundings(vocabulary, tokens, pre)) is not None:
        backend.post_processor = surroundings
    return backend
