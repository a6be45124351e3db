"""A model folder's tokenizer and chat template as GGUF metadata."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_runtime.checkpoint.config import Config
from strata_runtime.convert.network_keys import Value
from strata_runtime.convert.pretokenizer import pre_tokenizer_name
from strata_runtime.convert.surroundings import read_surroundings
from strata_runtime.errors import UserError
from strata_runtime.gguf.vocabulary import (
    BPE,
    CONTROL,
    END_KEYS,
    NORMAL,
    PREFIX,
    TEMPLATE_KEY,
    UNUSED,
    USER_DEFINED,
    ends_by_name,
)
from strata_runtime.strict_json import read_object
from strata_runtime.text.chat import template_source
from strata_runtime.text.end_tokens import EndTokens
from strata_runtime.text.tokenizer import TOKENIZER_FILE, Tokenizer, token_text

_NAMED = {"unk_token": "unknown_token_id", "pad_token": "padding_token_id"}


@dataclass(frozen=True, slots=True)
class VocabularyKeys:
    """A tokenizer, its metadata by whole key, and one line for each thing that GGUF files cannot say."""

    tokenizer: Tokenizer
    keys: Mapping[str, Value]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Source:
    """A tokenizer, and its tokenizer.json. `tokens`: texts by id."""

    tokenizer: Tokenizer
    raw: Mapping[str, object]
    model: Mapping[str, object]
    tokens: Mapping[int, str]
    where: str

    def id_of(self, name: str) -> int | None:
        """Id of a token that tokenizer_config.json names."""
        text = token_text(self.tokenizer.config.get(name))
        return self.tokenizer.control_tokens.get(text) if text is not None else None


def _added(raw: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    listed = raw.get("added_tokens")
    yield from (item for item in (listed if isinstance(listed, list) else ()) if isinstance(item, dict))


def _texts(raw: Mapping[str, object], model: Mapping[str, object], where: str) -> dict[int, str]:
    vocabulary = model.get("vocab")
    pairs = list(vocabulary.items()) if isinstance(vocabulary, dict) else []
    pairs += [(item.get("content"), item.get("id")) for item in _added(raw)]
    found: dict[int, str] = {}
    for text, token in pairs:
        if not isinstance(text, str) or not isinstance(token, int) or found.setdefault(token, text) != text:
            raise UserError(f"{where}: token {token!r} has no text, or more than one")
    return found


def _open(folder: Path) -> _Source:
    tokenizer = Tokenizer.load(folder)
    raw, where = read_object(folder / TOKENIZER_FILE), tokenizer.where
    model = raw.get("model")
    if not isinstance(model, dict) or model.get("type") != "BPE" or model.get("byte_fallback"):
        raise UserError(f"{where}: only byte-level BPE tokenizers have a form in GGUF files here")
    for option in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(option):
            raise UserError(f"{where}: the model's '{option}' has no form in GGUF files")
    return _Source(tokenizer, raw, model, _texts(raw, model, where), where)


def _merges(source: _Source) -> list[str]:
    listed = source.model.get("merges")
    merges = []
    for merge in listed if isinstance(listed, list) else ():
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or any(not one or " " in one for one in pair):
            raise UserError(f"{source.where}: the merge {merge!r:.60} has no form in GGUF files")
        merges.append(" ".join(pair))
    if not merges:
        raise UserError(f"{source.where}: a tokenizer without merges has no form in GGUF files")
    return merges


def _kinds(source: _Source, size: int) -> list[int]:
    control = set(source.tokenizer.control_tokens.values())
    added = {item.get("id") for item in _added(source.raw)}

    def kind(token: int) -> int:
        if token in control:
            return CONTROL
        return USER_DEFINED if token in added else NORMAL if token in source.tokens else UNUSED

    return list(map(kind, range(size)))


def _end_ids(source: _Source, config: Config, ends: EndTokens) -> list[int]:
    """Tokens that end a text: the one that chat templates may name, then as config.json lists them, then the rest."""
    named, listed = source.id_of("eos_token"), config.values[config.family.network.eos_ids]
    first = [] if named is None else [named]
    return list(dict.fromkeys([*first, *(listed if isinstance(listed, tuple) else ()), *sorted(ends.end)]))


def _end_keys(ids: Iterable[int]) -> dict[str, Value]:
    return {f"{PREFIX}{key}": token for key, token in zip(END_KEYS, ids, strict=False)}


def without_tokenizer(config: Config) -> Mapping[str, Value]:
    """Return the metadata of a model that works with token ids alone."""
    ends = config.values[config.family.network.eos_ids]
    return {f"{PREFIX}model": "none", **_end_keys(ends if isinstance(ends, tuple) else ())}


def _unsaid(source: _Source, ends: Iterable[int]) -> Iterator[str]:
    for token in ends:
        if not ends_by_name(source.tokens.get(token, "")):
            yield f"the end token {token} is left out: GGUF files name {len(END_KEYS)} of them"
    for item in _added(source.raw):
        if any(item.get(flag) for flag in ("lstrip", "rstrip", "single_word")):
            yield f"the token {item.get('content')!r} stands alone or takes spaces beside it: GGUF files cannot say so"


def vocabulary_keys(folder: Path, config: Config, vocab_size: int) -> VocabularyKeys:
    """Read the text side of a model folder. Ids without a token get one that is unused.

    Raises `UserError` for a tokenizer that is damaged, belongs to another model, or has no form in GGUF files.
    """
    source = _open(folder)
    source.tokenizer.check_fits(vocab_size)
    ends = EndTokens.load(folder, source.tokenizer, vocab_size)
    own_bos = source.id_of("bos_token")
    around = read_surroundings(source.raw, ends.begin if own_bos is None else own_bos, source.where)
    end_ids = _end_ids(source, config, ends)
    template, _ = template_source(folder, source.tokenizer)
    named = {"bos_token_id": around.bos, **{key: source.id_of(name) for name, key in _NAMED.items()}}
    keys: dict[str, Value] = {
        f"{PREFIX}model": BPE,
        f"{PREFIX}pre": pre_tokenizer_name(source.raw, source.where),
        f"{PREFIX}tokens": [source.tokens.get(token, f"[PAD{token}]") for token in range(vocab_size)],
        f"{PREFIX}token_type": _kinds(source, vocab_size),
        f"{PREFIX}merges": _merges(source),
        **{f"{PREFIX}{key}": token for key, token in named.items() if token is not None},
        f"{PREFIX}add_bos_token": around.adds_bos,
        **_end_keys(end_ids),
        **({TEMPLATE_KEY: template} if template is not None else {}),
    }
    return VocabularyKeys(source.tokenizer, keys, tuple(_unsaid(source, end_ids[len(END_KEYS) :])))
