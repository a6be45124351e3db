"""The tokenizer inside a converted file gives the ids of the folder's, or there is none and the reason is said."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gguf
import pytest
from tokenizers import AddedToken, Tokenizer, normalizers, pre_tokenizers, processors

from strata_runtime.errors import UserError
from strata_runtime.gguf.pretokenizers import PRE_TOKENIZERS
from strata_runtime.text.chat import ChatTemplate
from strata_runtime.text.source import open_text
from support.checkpoints import make_qwen_config, write_checkpoint
from support.text_models import TEMPLATE, TEXTS, byte_fallback, byte_level, word_piece, write_folder

from .conftest import Convert, LoadModel

MODEL = Path(__file__).parents[2] / "examples" / "models" / "strata-tiny"
MERGES = (("d", "e"), ("de", "f"), ("Ġ", "t"), ("1", "2"), ("Ã", "¶"))
CONFIG = make_qwen_config(vocab_size=300, hidden_size=32, num_hidden_layers=1, eos_token_id=[0, 2])
END, SYSTEM, USER = 0, 1, 2


def backend(pre: str = "gpt-2") -> Tokenizer:
    """A tokenizer of 265 tokens that cuts text as the name says."""
    tokenizer = byte_level(merges=MERGES)
    PRE_TOKENIZERS[pre].install(tokenizer)
    if PRE_TOKENIZERS[pre].whole_words:
        tokenizer.model.ignore_merges = True
    return tokenizer


def write_model(folder: Path, tokenizer: Tokenizer, config: dict[str, object] | None = None) -> Path:
    """A model folder with this tokenizer."""
    write_checkpoint(write_folder(folder, tokenizer, config, CONFIG), CONFIG)
    return folder


def fields(path: Path) -> dict[str, object]:
    """What a file says of its tokenizer, by the ends of the keys."""
    found = gguf.GGUFReader(path).fields
    return {name.removeprefix("tokenizer.ggml."): field.contents() for name, field in found.items()}


@pytest.mark.parametrize("pre", PRE_TOKENIZERS)
def test_every_way_to_cut_text_is_recognised(tmp_path: Path, to_gguf: Convert, pre: str) -> None:
    folder = write_model(tmp_path / "model", backend(pre))
    to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    name = fields(tmp_path / "model.gguf")["pre"]
    assert isinstance(name, str)
    # Whether they add BOS is said beside the name.
    assert replace(PRE_TOKENIZERS[name], adds_bos=False) == replace(PRE_TOKENIZERS[pre], adds_bos=False)
    found, expected = (open_text(path).require_tokenizer() for path in (tmp_path / "model.gguf", folder))
    assert [found.encode(text) for text in TEXTS] == [expected.encode(text) for text in TEXTS]
    assert found.control_tokens == expected.control_tokens


def test_ids_and_conversations_of_a_real_tokenizer(tmp_path: Path, to_gguf: Convert) -> None:
    config = make_qwen_config(vocab_size=4096, hidden_size=32, num_hidden_layers=1)
    folder = write_checkpoint(tmp_path / "model", config)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(MODEL / name, folder)
    to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    made, source = open_text(tmp_path / "model.gguf"), open_text(folder)
    found, expected = made.require_tokenizer(), source.require_tokenizer()
    corpus = [*TEXTS, *(path.read_text() for path in sorted(Path(__file__).parents[1].glob("*/*.py"))[:20])]
    assert [found.encode(text) for text in corpus] == [expected.encode(text) for text in corpus]
    chat = [{"role": "system", "content": "<|user|>"}, {"role": "user", "content": "größer"}]
    assert made.chat_template().source == source.chat_template().source
    assert made.chat_template().render(chat, found) == source.chat_template().render(chat, expected)


def test_tokens_keep_their_kind_and_ids_without_a_token_get_an_unused_one(tmp_path: Path, to_gguf: Convert) -> None:
    tokenizer = backend()
    tokenizer.add_tokens([AddedToken("<think>", normalized=False)])
    config = {"eos_token": "<|user|>", "pad_token": "<|endoftext|>", "bos_token": "<|system|>"}
    to_gguf(write_model(tmp_path / "model", tokenizer, config), tmp_path / "model.gguf", tokenizer=True)
    said, size = fields(tmp_path / "model.gguf"), tokenizer.get_vocab_size()
    assert (said["model"], said["add_bos_token"]) == ("gpt2", False)
    tokens, kinds = said["tokens"], said["token_type"]
    assert isinstance(tokens, list)
    assert isinstance(kinds, list)
    assert tokens == [*map(tokenizer.id_to_token, range(size)), *(f"[PAD{token}]" for token in range(size, 300))]
    kind = gguf.TokenType
    assert kinds == [kind.CONTROL] * 4 + [kind.NORMAL] * (size - 5) + [kind.USER_DEFINED] + [kind.UNUSED] * (300 - size)
    assert said["merges"] == [" ".join(pair) for pair in MERGES]
    assert (said["eos_token_id"], said["eot_token_id"], said["bos_token_id"]) == (USER, END, SYSTEM)
    assert said["padding_token_id"] == END
    assert open_text(tmp_path / "model.gguf").ends(300).end == {END, USER}


def test_a_token_before_every_text_is_added(tmp_path: Path, to_gguf: Convert) -> None:
    tokenizer = backend()
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(single="<|system|> $A", special_tokens=[("<|system|>", SYSTEM)]),
        ]
    )
    folder = write_model(tmp_path / "model", tokenizer)
    to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    assert fields(tmp_path / "model.gguf")["add_bos_token"] is True
    found, expected = (open_text(path).require_tokenizer() for path in (tmp_path / "model.gguf", folder))
    assert found.encode("def") == expected.encode("def")
    assert found.encode("")[:1] == [SYSTEM]


def test_more_end_tokens_than_a_file_names_are_said(tmp_path: Path, to_gguf: Convert) -> None:
    folder = write_model(tmp_path / "model", backend(), {"eos_token": "<|user|>"})
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": [0, 1, 2, 3]}))
    made = to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    assert made.notes == ("the end token 3 is left out: GGUF files name 3 of them",)


def test_a_token_that_takes_spaces_beside_it_is_said(tmp_path: Path, to_gguf: Convert) -> None:
    tokenizer = backend()
    tokenizer.add_special_tokens([AddedToken("<mask>", lstrip=True, normalized=False)])
    made = to_gguf(write_model(tmp_path / "model", tokenizer), tmp_path / "model.gguf", tokenizer=True)
    (note,) = made.notes
    assert note.startswith("the token '<mask>' stands alone or takes spaces beside it")


def test_a_folder_without_a_template_gives_a_file_without_one(tmp_path: Path, to_gguf: Convert) -> None:
    folder = write_model(tmp_path / "model", backend(), {"eos_token": "<|user|>"})
    to_gguf(folder, tmp_path / "plain.gguf", tokenizer=True)
    with pytest.raises(UserError, match="the model has no chat template"):
        open_text(tmp_path / "plain.gguf").chat_template()
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    template = open_text(tmp_path / "model.gguf").chat_template()
    assert isinstance(template, ChatTemplate)
    assert template.source == TEMPLATE


def test_without_a_tokenizer_the_model_takes_ids(tmp_path: Path, load: LoadModel, to_gguf: Convert) -> None:
    folder = write_model(tmp_path / "model", byte_fallback())
    to_gguf(folder, tmp_path / "model.gguf", tokenizer=False)
    text = open_text(tmp_path / "model.gguf")
    assert text.tokenizer is None
    assert text.ends(300).end == {END, USER}
    assert load(tmp_path / "model.gguf").info.vocab_size == 300


# --- what has no form in GGUF files


def byte_level_without_merges() -> Tokenizer:
    tokenizer = byte_level()
    PRE_TOKENIZERS["gpt-2"].install(tokenizer)
    return tokenizer


def changed(change: Callable[[Tokenizer], object]) -> Tokenizer:
    tokenizer = backend()
    change(tokenizer)
    return tokenizer


def set_to(name: str, value: object) -> Callable[[Tokenizer], object]:
    return lambda tokenizer: setattr(tokenizer, name, value)


TWO = processors.TemplateProcessing(single="$A <|user|>", special_tokens=[("<|user|>", USER)])
CUTS = pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel(add_prefix_space=False)])
NO_FORM = {
    "another model": (word_piece(), "only byte-level BPE tokenizers have a form"),
    "bytes to fall back on": (byte_fallback(), "only byte-level BPE tokenizers have a form"),
    "no merges": (byte_level_without_merges(), "a tokenizer without merges"),
    "another cut": (
        changed(set_to("pre_tokenizer", CUTS)),
        "are none that GGUF files have a name for here; known: chat",
    ),
    "a space before": (changed(set_to("pre_tokenizer", pre_tokenizers.ByteLevel())), "have a name for here"),
    "another normalizer": (changed(set_to("normalizer", normalizers.Lowercase())), "have a name for here"),
    "a token behind": (changed(set_to("post_processor", TWO)), "adds more than one token that begins texts"),
    "word ends": (changed(lambda one: setattr(one.model, "end_of_word_suffix", "</w>")), "'end_of_word_suffix' has no"),
}


@pytest.mark.parametrize("case", NO_FORM)
def test_a_tokenizer_without_a_form_is_refused_and_the_way_out_is_named(
    tmp_path: Path, to_gguf: Convert, case: str
) -> None:
    tokenizer, message = NO_FORM[case]
    folder = write_model(tmp_path / "model", tokenizer)
    with pytest.raises(UserError, match=f"tokenizer.json: .*{message}.*; --no-tokenizer converts the rest"):
        to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_tokenizer_of_another_model_or_none_is_refused(tmp_path: Path, to_gguf: Convert) -> None:
    folder = write_model(tmp_path / "model", backend())
    shutil.copy(MODEL / "tokenizer.json", folder)
    with pytest.raises(UserError, match="has 4096 tokens, but the model has only 300"):
        to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"tokenizer.json: cannot be read.*--no-tokenizer converts the rest"):
        to_gguf(folder, tmp_path / "model.gguf", tokenizer=True)
