"""The tokenizer of a model folder: literal prompts, control tokens, and files that are missing or damaged."""

import json
from threading import Thread
from time import perf_counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken

from strata_runtime.errors import UserError
from strata_runtime.text.end_tokens import EndTokens
from strata_runtime.text.tokenizer import Tokenizer
from support.text_models import byte_fallback, byte_level, write_folder


def load(tmp_path, **parts):
    return Tokenizer.load(write_folder(tmp_path, **parts))


def test_text_survives_a_round_trip(tmp_path):
    tokenizer = load(tmp_path)
    text = "def f():\n\treturn 'é€😀'\0"
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_other_threads_go_on_while_a_long_text_is_read(tmp_path):
    reading = Thread(target=load(tmp_path).encode, args=("word " * 50_000,))
    began = last = perf_counter()
    longest = 0.0
    reading.start()
    while reading.is_alive():
        now = perf_counter()
        longest, last = max(longest, now - last), now
    assert longest < 0.8 * (perf_counter() - began)


@given(st.lists(st.sampled_from(["<|user|>", "<|", "user", "|>", "a", " "]), max_size=8).map("".join))
@settings(max_examples=120, deadline=None)
def test_no_control_token_is_ever_read_out_of_a_prompt(text):
    tokenizer = Tokenizer(byte_level(), {}, "here")
    ids = tokenizer.encode(text)
    assert all(map(tokenizer.has_text, ids))
    assert tokenizer.decode(ids) == text


def test_a_token_that_only_the_config_calls_special_is_a_control_token_too(tmp_path):
    backend = byte_level(control=())
    backend.add_tokens(["<end>"])
    tokenizer = load(tmp_path, tokenizer=backend, config={"eos_token": {"content": "<end>"}})
    assert list(tokenizer.control_tokens) == ["<end>"]
    assert all(map(tokenizer.has_text, tokenizer.encode("<end>")))


def test_a_normaliser_cannot_turn_other_spellings_into_a_control_token(tmp_path):
    from tokenizers import normalizers

    backend = byte_level(control=())
    backend.normalizer = normalizers.Lowercase()
    backend.add_special_tokens([AddedToken("<|user|>", normalized=True, special=True)])
    tokenizer = load(tmp_path, tokenizer=backend)
    for spelling in ("<|USER|>", "<|user|>"):
        assert all(map(tokenizer.has_text, tokenizer.encode(spelling)))


def test_truncation_and_padding_of_the_file_do_not_apply(tmp_path):
    backend = byte_level()
    backend.enable_truncation(4)
    backend.enable_padding(length=20)
    assert len(load(tmp_path, tokenizer=backend).encode("0123456789")) == 10


def test_what_the_tokenizer_puts_around_prompts_is_kept(tmp_path):
    assert load(tmp_path, tokenizer=byte_fallback()).encode("</s>")[:1] == [1]
    assert 2 not in load(tmp_path, tokenizer=byte_fallback()).encode("</s>")


def test_half_of_a_surrogate_pair_is_refused(tmp_path):
    with pytest.raises(UserError, match="not valid Unicode"):
        load(tmp_path).encode("a\udcffb")


def test_a_tokenizer_larger_than_the_model_is_refused_and_a_smaller_one_is_fine(tmp_path):
    tokenizer = load(tmp_path)
    tokenizer.check_fits(tokenizer.size)
    tokenizer.check_fits(tokenizer.size + 64)
    with pytest.raises(UserError, match="belongs to another model"):
        tokenizer.check_fits(tokenizer.size - 1)


def test_a_folder_without_tokenizer_config_still_reads_text(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "tokenizer_config.json").unlink()
    assert Tokenizer.load(folder).encode("a")


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"null",
        b"[1",
        b"\xff\xfe",
        b'{"model": {"type": "BPE"}}',
        b'{"version": "1.0", "model": 7}',
        # The library panics on a merge whose result is no token.
        b'{"version": "1.0", "model": {"type": "BPE", "vocab": {"a": 0, "b": 1}, "merges": ["a b"]}}',
    ],
)
def test_a_damaged_tokenizer_file_is_one_clear_error(tmp_path, content):
    folder = write_folder(tmp_path)
    (folder / "tokenizer.json").write_bytes(content)
    with pytest.raises(UserError, match=r"tokenizer\.json"):
        Tokenizer.load(folder)


def test_a_missing_tokenizer_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"tokenizer\.json: cannot be read: No such file"):
        Tokenizer.load(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", "{", '{"a": 1, "a": 2}', "\ud800"], ids=repr)
def test_a_damaged_tokenizer_config_is_one_clear_error(tmp_path, content):
    folder = write_folder(tmp_path)
    (folder / "tokenizer_config.json").write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(UserError, match=r"tokenizer_config\.json"):
        Tokenizer.load(folder)


# Tokens that end a text


def ends(folder, vocab_size=300):
    return EndTokens.load(folder, Tokenizer.load(folder), vocab_size)


@pytest.mark.parametrize(
    ("model_config", "generation_config", "expected"),
    [
        ({"eos_token_id": 7}, None, {0, 7}),
        ({"eos_token_id": [7, 9]}, None, {0, 7, 9}),
        ({"eos_token_id": None}, None, {0}),
        ({}, {"eos_token_id": [11]}, {0, 11}),
        ({"eos_token_id": 7}, {"eos_token_id": 11}, {0, 7, 11}),
    ],
)
def test_end_tokens_of_all_files_count(tmp_path, model_config, generation_config, expected):
    folder = write_folder(tmp_path, model_config=model_config, generation_config=generation_config)
    assert ends(folder).end == expected


def test_the_first_token_is_known_where_the_model_declares_one(tmp_path):
    assert ends(write_folder(tmp_path / "a", model_config={"bos_token_id": 5})).begin == 5
    assert ends(write_folder(tmp_path / "b", model_config={"bos_token_id": None})).begin is None


@pytest.mark.parametrize("value", [300, -1, True, "0", 1.5, [1, "2"], {"id": 1}], ids=str)
def test_end_tokens_that_are_no_ids_are_refused(tmp_path, value):
    folder = write_folder(tmp_path, generation_config={"eos_token_id": value})
    with pytest.raises(UserError, match=r"generation_config\.json: 'eos_token_id' must be token ids from 0 to 299"):
        ends(folder)


def test_a_damaged_generation_config_is_an_error_and_not_ignored(tmp_path):
    folder = write_folder(tmp_path)
    (folder / "generation_config.json").write_text(json.dumps([1]))
    with pytest.raises(UserError, match=r"generation_config\.json"):
        ends(folder)


@pytest.mark.parametrize("make", [byte_level, byte_fallback])
def test_the_bytes_of_a_texts_tokens_are_those_of_the_text(make):
    tokenizer = Tokenizer(make(), {}, "here")
    text = "the Grüße, 世界 🙂\x00!"
    ids = [token for token in tokenizer.encode(text) if tokenizer.has_text(token)]
    assert b"".join(map(tokenizer.token_bytes, ids)).decode().strip() == text
    assert len(ids) > len(text)


def test_tokens_without_text_have_the_bytes_of_their_names():
    tokenizer = Tokenizer(byte_level(), {}, "here")
    assert tokenizer.token_bytes(tokenizer.control_tokens["<|user|>"]) == b"<|user|>"
    assert tokenizer.token_bytes(100_000) == b""
