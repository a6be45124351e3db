"""Log-probabilities: their two forms, and that they belong to the text that was given out."""

import json

import pytest

from support.serving import CHAT, TEXT, chunks, hello, saying


def test_of_a_completion(client, engine, batch):
    batch.script = saying(engine, "aé!")
    choice = client.post(TEXT, json={"prompt": "abc", "logprobs": 2}).json()["choices"][0]
    found = choice["logprobs"]
    assert found["tokens"] == ["a", "bytes:\\xc3", "bytes:\\xa9", "!"]
    assert found["token_logprobs"] == [-0.5] * 4
    assert found["text_offset"] == [0, 1, 1, 2]
    assert [list(each.values()) for each in found["top_logprobs"]] == [[-0.5, -1.5]] * 4
    assert [next(iter(each)) for each in found["top_logprobs"]] == found["tokens"]


def test_of_a_chat(client, engine, batch):
    batch.script = saying(engine, "aé")
    choice = client.post(CHAT, json=hello(logprobs=True, top_logprobs=3)).json()["choices"][0]
    found = choice["logprobs"]["content"]
    assert bytes(byte for each in found for byte in each["bytes"]).decode() == choice["message"]["content"] == "aé"
    assert [each["logprob"] for each in found] == [-0.5] * 3
    first = [each["top_logprobs"][0] for each in found]
    assert first == [{name: each[name] for name in ("token", "logprob", "bytes")} for each in found]
    assert {len(each["top_logprobs"]) for each in found} == {3}


@pytest.mark.parametrize("asked", [{"logprobs": True}, {"logprobs": True, "top_logprobs": 0}])
def test_without_alternatives(client, batch, asked):
    found = client.post(CHAT, json=hello(**asked)).json()["choices"][0]["logprobs"]["content"]
    assert batch.submitted[0].logprobs == 0
    assert all(each["top_logprobs"] == [] for each in found)


def test_there_are_none_unless_asked_for(client, batch):
    assert client.post(CHAT, json=hello(logprobs=False)).json()["choices"][0]["logprobs"] is None
    assert client.post(TEXT, json={"prompt": "a", "logprobs": None}).json()["choices"][0]["logprobs"] is None
    assert [asked.logprobs for asked in batch.submitted] == [None, None]


@pytest.mark.parametrize("text", ["Grüße, 世界 🙂!", "plain"])
def test_a_streams_tokens_are_those_of_the_whole_answer_and_come_with_their_text(client, engine, batch, text):
    batch.script = saying(engine, text)
    whole = client.post(CHAT, json=hello(logprobs=True)).json()["choices"][0]["logprobs"]["content"]
    with client.stream("POST", CHAT, json=hello(logprobs=True, stream=True)) as response:
        choices = [each["choices"][0] for each in chunks(response)][1:]
    assert [token for each in choices for token in each["logprobs"]["content"]] == whole
    for each in choices:
        made = bytes(byte for token in each["logprobs"]["content"] for byte in token["bytes"]).decode()
        assert made == each["delta"].get("content", "")


def test_tokens_of_a_stop_string_are_not_told_of(client, engine, batch):
    batch.script = saying(engine, "abc<end>def")
    body = {"prompt": "abc", "logprobs": 0, "stop": ["<end>"], "max_tokens": 99}
    whole = client.post(TEXT, json=body).json()["choices"][0]
    assert whole["text"] == "".join(whole["logprobs"]["tokens"]) == "abc"
    with client.stream("POST", TEXT, json={**body, "stream": True}) as response:
        pieces = [each["choices"][0]["logprobs"]["tokens"] for each in chunks(response)]
    assert [token for piece in pieces for token in piece] == ["a", "b", "c"]


def test_the_end_token_is_not_one_of_the_text(client, engine, batch):
    end = engine.tokenizer.control_tokens["<|endoftext|>"]
    batch.script = lambda _: iter([*engine.tokenizer.encode("a"), end])
    assert client.post(TEXT, json={"prompt": "a", "logprobs": 1}).json()["choices"][0]["logprobs"]["tokens"] == ["a"]


def test_a_character_cut_off_in_the_middle_is_told_of_with_what_stands_for_it(client, engine, batch):
    batch.script = saying(engine, "a🙂")
    choice = client.post(TEXT, json={"prompt": "a", "logprobs": 1, "max_tokens": 3}).json()["choices"][0]
    assert choice["text"] == "a\ufffd"
    assert choice["logprobs"]["tokens"] == ["a", "bytes:\\xf0", "bytes:\\x9f"]
    assert json.dumps(choice)
