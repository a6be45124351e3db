"""Whole answers: their form, and what of a request reaches the batch."""

import pytest

from support.serving import CHAT, TEXT, hello

ANSWER = "Grüße, 世界 🙂!"
USAGE = {
    "prompt_tokens": 3,
    "completion_tokens": 22,
    "total_tokens": 25,
    "prompt_tokens_details": {"cached_tokens": 1},
}


def test_a_completion(client, server):
    found = client.post(TEXT, json={"prompt": "abc", "max_tokens": 50}).json()
    assert found.pop("id").startswith("cmpl-")
    assert found.pop("created") >= server.service.created
    assert found == {
        "object": "text_completion",
        "model": "fake",
        "system_fingerprint": server.service.engine.session.fingerprint,
        "choices": [{"text": ANSWER, "index": 0, "logprobs": None, "finish_reason": "stop"}],
        "usage": USAGE,
    }


def test_a_chat(client, server):
    found = client.post(CHAT, json=hello(model="fake")).json()
    assert found.pop("id").startswith("chatcmpl-")
    assert found.pop("created") >= server.service.created
    message = {"role": "assistant", "content": ANSWER, "refusal": None}
    prompt = len(server.service.engine.encode(hello()["messages"]))
    assert found == {
        "object": "chat.completion",
        "model": "fake",
        "system_fingerprint": server.service.engine.session.fingerprint,
        "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}],
        "usage": {**USAGE, "prompt_tokens": prompt, "total_tokens": prompt + 22},
    }


def test_an_answer_that_is_cut_off_says_so(client):
    found = client.post(TEXT, json={"prompt": "abc", "max_tokens": 2}).json()
    assert found["choices"][0]["text"] == "Gr"
    assert found["choices"][0]["finish_reason"] == "length"


@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_every_setting_reaches_the_batch(client, batch, path):
    sampling = {
        "temperature": 0.5,
        "top_p": 0.9,
        "top_k": 7,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "seed": (1 << 64) - 1,
    }
    more = {"max_tokens": 9, "stop": ["x", "yz"], "ignore_eos": True}
    body = {"prompt": "abc"} if path == TEXT else hello()
    assert client.post(path, json={**body, **sampling, **more}).status_code == 200
    (asked,) = batch.submitted
    assert {name: getattr(asked.sampling, name) for name in sampling} == sampling
    assert (asked.max_tokens, asked.stop, asked.ignore_eos, asked.logprobs) == (9, ("x", "yz"), True, None)


def test_defaults_are_those_of_the_api_and_of_the_engine(client, batch, server):
    client.post(TEXT, json={"prompt": "abc"})
    client.post(CHAT, json=hello())
    text, chat = batch.submitted
    assert text.max_tokens == 16
    assert chat.max_tokens == server.service.engine.context
    assert text.sampling == chat.sampling == type(text.sampling)()


def test_fields_at_their_neutral_value_are_taken(client):
    neutral = {
        "n": 1,
        "frequency_penalty": 0,
        "presence_penalty": 0.0,
        "logit_bias": {},
        "user": "me",
        "stream": None,
        "stop": None,
        "temperature": None,
    }
    chat = {"response_format": {"type": "text"}, "tool_choice": "auto", "modalities": ["text"], "tools": []}
    text = {"best_of": 1, "echo": False, "suffix": "", "logprobs": None}
    assert client.post(CHAT, json=hello(**neutral, **chat)).status_code == 200
    assert client.post(TEXT, json={"prompt": "abc", **neutral, **text}).status_code == 200


@pytest.mark.parametrize("prompt", ["abc", [68, 69, 70], ["abc"], [[68, 69, 70]]])
def test_a_prompt_is_text_or_token_ids(client, batch, server, prompt):
    assert client.post(TEXT, json={"prompt": prompt}).status_code == 200
    is_text = "abc" in prompt
    assert batch.submitted[0].ids == (server.service.engine.encode("abc") if is_text else (68, 69, 70))


def test_parts_of_text_are_one_text_for_the_template(client, batch):
    parts = [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]
    client.post(CHAT, json={"messages": [{"role": "user", "content": parts}]})
    client.post(CHAT, json=hello())
    assert batch.submitted[0].ids == batch.submitted[1].ids


def test_max_completion_tokens_is_another_word_for_max_tokens(client, batch):
    client.post(CHAT, json=hello(max_completion_tokens=5))
    client.post(CHAT, json=hello(max_completion_tokens=5, max_tokens=5))
    assert [asked.max_tokens for asked in batch.submitted] == [5, 5]


def test_a_seed_gives_the_same_request_twice(client, batch):
    for _ in range(2):
        client.post(CHAT, json=hello(seed=3, temperature=0.7))
    assert batch.submitted[0] == batch.submitted[1]


def test_models(client, server):
    card = {
        "id": "fake",
        "object": "model",
        "created": server.service.created,
        "owned_by": "strata",
        "context_length": 400,
    }
    assert client.get("/v1/models").json() == {"object": "list", "data": [card]}
    assert client.get("/v1/models/fake").json() == card


def test_a_stop_string_across_tokens_ends_the_text(client):
    found = client.post(CHAT, json=hello(stop="世界")).json()["choices"][0]
    assert found["message"]["content"] == "Grüße, "
    assert found["finish_reason"] == "stop"


def test_a_large_text_comes_back_as_it_is(client, engine, batch):
    text = "ä世🙂\u200b\x00\r\n" * 800
    batch.script = lambda _: iter(engine.tokenizer.encode(text))
    found = client.post(TEXT, json={"prompt": "abc", "max_tokens": 100_000})
    assert found.json()["choices"][0]["text"] == text


def test_a_model_with_a_slash_in_its_name_is_found(serve):
    import httpx2

    server = serve(model="maker/model")
    assert httpx2.get(f"{server.url}/v1/models/maker/model").json()["id"] == "maker/model"
