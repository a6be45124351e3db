"""Every error has the shape that OpenAI's clients know, the right status, and words that help."""

import json

import httpx2
import pytest
from pydantic import ValidationError

from strata_runtime.serve.requests import ChatRequest, CompletionRequest
from support.serving import CHAT, TEXT, hello


def error(response, status):
    """The error of a response, after a look at its shape."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    found = response.json()
    assert set(found) == {"error"}
    assert set(found["error"]) == {"message", "type", "param", "code"}
    kind = "server_error" if status >= 500 else "rate_limit_error" if status == 429 else "invalid_request_error"
    assert found["error"]["type"] == kind
    return found["error"]


CHATS = [
    ({}, "messages", "field required"),
    ({"messages": []}, "messages", "at least 1 item"),
    ({"messages": "Hello"}, "messages", "valid list"),
    ({"messages": [{"content": "no role"}]}, "messages[0].role", "field required"),
    ({"messages": [{"role": "user", "content": 3}]}, "messages[0].content", "valid string"),
    ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "messages[0].content", "'text'"),
    (hello(max_tokens=-1), "max_tokens", "greater than or equal to 0"),
    (hello(max_tokens="9"), "max_tokens", "valid integer"),
    (hello(max_tokens=1, max_completion_tokens=2), None, "give one of them"),
    (hello(temperature=-0.1), "temperature", "greater than or equal to 0"),
    (hello(temperature=1e9), "temperature", "less than or equal to 100"),
    (hello(top_p=0), "top_p", "greater than 0"),
    (hello(seed=1 << 64), "seed", "less than or equal to"),
    (hello(seed=-1), "seed", "greater than or equal to 0"),
    (hello(stop=""), "stop", "at least 1 character"),
    (hello(stop=["x"] * 17), "stop", "at most 16"),
    (hello(n=2), "n", "one answer a request is served"),
    (hello(frequency_penalty=0.5), "frequency_penalty", "repetition_penalty is"),
    (hello(logit_bias={"5": 1}), "logit_bias", "not served"),
    (hello(response_format={"type": "json_object"}), "response_format.type", "text alone is served"),
    (hello(tool_choice="required"), "tool_choice", "the model chooses"),
    (hello(functions=[]), "functions", "give tools"),
    (hello(top_logprobs=2), None, "top_logprobs needs logprobs"),
    (hello(logprobs=True, top_logprobs=21), "top_logprobs", "less than or equal to 20"),
    (hello(max_token=3), "max_token", "did you mean 'max_tokens'?"),
    (hello(stream_options={"include_use": True}), "stream_options", "extra inputs"),
    (hello(tools=[{"type": "function"}]), None, "no place for tools"),
    ([1], None, "must be a JSON object"),
    (None, None, "must be a JSON object"),
]
TEXTS = [
    ({}, "prompt", "field required"),
    ({"prompt": ["a", "b"]}, "prompt", "one prompt a request"),
    ({"prompt": []}, "prompt", "one prompt a request"),
    ({"prompt": [[]]}, "prompt", "one prompt a request"),
    ({"prompt": [-1]}, "prompt", "one prompt a request"),
    ({"prompt": [300]}, None, "an id from 0 to 299"),
    ({"prompt": ""}, None, "the prompt is empty"),
    ({"prompt": "a", "echo": True}, "echo", "the prompt is not repeated"),
    ({"prompt": "a", "suffix": "b"}, "suffix", "text is only added at the end"),
    ({"prompt": "a", "best_of": 2}, "best_of", "one answer"),
]


@pytest.mark.parametrize(("body", "param", "words"), CHATS, ids=lambda value: json.dumps(value)[:60])
def test_a_chat_that_does_not_hold_is_refused_with_words_that_help(client, batch, body, param, words):
    found = error(client.post(CHAT, json=body), 400)
    assert found["param"] is None or found["param"].startswith(param)
    assert param is None or found["param"] is not None
    assert words in found["message"]
    assert batch.submitted == []


@pytest.mark.parametrize(("body", "param", "words"), TEXTS, ids=lambda value: json.dumps(value)[:60])
def test_a_completion_that_does_not_hold_is_refused_with_words_that_help(client, batch, body, param, words):
    found = error(client.post(TEXT, json=body), 400)
    assert found["param"] == param
    assert words in found["message"]
    assert batch.submitted == []


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "must be a JSON object"),
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "body"),
        (b'{"prompt": "\\ud800"}', "prompt"),
        (b'{"prompt": "a", "\\ud800": 1}', "body"),
        (b'{"messages": [{"role": "user", "content": "\\ud800"}]}', ""),
        (b'{"prompt": "a", "temperature": NaN}', "temperature"),
        (b'{"prompt": "a", "temperature": 1e999}', "temperature"),
        (b'{"prompt": "a", "seed": ' + b"9" * 5000 + b"}", "not valid JSON"),
        (b'{"prompt": ' + b"[" * 5000 + b"]" * 5000 + b"}", "not valid JSON"),
        (b'{"prompt": "\xe9"}', "UTF-8"),
    ],
    ids=lambda value: repr(value)[:40],
)
@pytest.mark.parametrize("path", [TEXT, CHAT])
def test_bytes_that_are_no_request_are_refused(client, path, body, words):
    found = error(client.post(path, content=body, headers={"content-type": "application/json"}), 400)
    assert path == CHAT or words in found["message"]


MANY = 1000
STRANGERS = {f"field{at}": 1 for at in range(MANY)}


@pytest.mark.parametrize(
    ("form", "body"),
    [
        (CompletionRequest, {"prompt": [-1] * MANY}),
        (CompletionRequest, {"prompt": [[-1] * MANY]}),
        (CompletionRequest, {"prompt": [1.5] * MANY}),
        (CompletionRequest, {"prompt": "a", "stop": [1] * MANY}),
        (CompletionRequest, {"prompt": "a", "logit_bias": STRANGERS}),
        (CompletionRequest, {"prompt": "a", **STRANGERS}),
        (ChatRequest, {"messages": [{}] * MANY}),
        (ChatRequest, {"messages": [{"role": "user", "content": [1] * MANY}]}),
        (ChatRequest, {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", **STRANGERS}]}]}),
        (ChatRequest, hello(tools=[1] * MANY)),
        (ChatRequest, hello(modalities=[1] * MANY)),
        (ChatRequest, hello(stream_options=STRANGERS)),
        (ChatRequest, hello(response_format=STRANGERS)),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_a_body_of_nothing_but_faults_makes_few_errors(form, body):
    """Each one costs far more time and memory than the bytes that cause it."""
    with pytest.raises(ValidationError) as refused:
        form.model_validate(body)
    assert refused.value.error_count() < 10


def test_a_body_that_is_not_said_to_be_json_is_refused(client):
    """A form of another website can send such a body, but none of this type, without being asked."""
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        found = error(client.post(CHAT, content=json.dumps(hello()), headers={"content-type": kind}), 400)
        assert "Content-Type: application/json" in found["message"]


def test_another_model_is_not_found(client):
    for path, body in ((CHAT, hello()), (TEXT, {"prompt": "a"})):
        found = error(client.post(path, json={**body, "model": "gpt-9"}), 404)
        assert found["code"] == "model_not_found"
        assert "'fake' is" in found["message"]
    assert error(client.get("/v1/models/gpt-9"), 404)["code"] == "model_not_found"


def test_other_paths_and_methods_have_the_same_shape(client):
    assert "/v2/x" in error(client.get("/v2/x"), 404)["message"]
    assert error(client.get(CHAT), 405)["message"] == f"GET is not for {CHAT}"
    assert client.get(CHAT).headers["allow"] == "POST"
    error(client.post("/health"), 405)


def test_a_prompt_longer_than_the_context_is_refused(client, server):
    context = server.service.engine.context
    found = error(client.post(TEXT, json={"prompt": [5] * (context + 1)}), 400)
    assert (found["code"], found["param"]) == ("context_length_exceeded", "prompt")
    assert f"{context + 1} tokens, more than the context of {context}" in found["message"]
    assert client.post(TEXT, json={"prompt": [5] * context}).status_code == 200
    long = {"messages": [{"role": "user", "content": "a b " * context}]}
    assert error(client.post(CHAT, json=long), 400)["param"] == "messages"


def test_a_full_queue_is_a_matter_of_time(serve, engine):
    server = serve(lambda _: iter([5.0]), places=2)
    with httpx2.Client(base_url=server.url) as client:
        for _ in range(2):
            with pytest.raises(httpx2.ReadTimeout):
                client.post(CHAT, json=hello(), timeout=0.05)
            # They have left, but hold their places until the batch has seen it.
        server.batch.places = 0
        response = client.post(CHAT, json=hello())
    assert error(response, 429)["code"] == "queue_full"
    assert response.headers["retry-after"] == "1"


def test_what_nobody_expected_is_an_answer_and_the_server_goes_on(client, batch, server):
    def broken(*_, **__):
        raise ZeroDivisionError("inside")

    batch.submit, kept = broken, batch.submit
    try:
        found = error(client.post(CHAT, json=hello()), 500)
    finally:
        del batch.submit
    assert "inside" not in found["message"]
    (fault,) = [line for line in server.lines if line["event"] == "fault"]
    assert "ZeroDivisionError: inside" in fault["problem"]
    assert client.post(CHAT, json=hello()).status_code == 200
    assert kept == batch.submit


def test_a_server_that_stops_takes_no_more(client, server):
    server.service.is_stopping = True
    try:
        assert error(client.post(CHAT, json=hello()), 503)["code"] == "stopping"
        assert client.get("/health").status_code == 503
    finally:
        server.service.is_stopping = False
    assert client.get("/health").json() == {"status": "ok"}


def test_every_answer_has_a_name_that_the_log_has_too(client, server):
    for response in (client.get("/v1/models"), client.get("/nothing"), client.post(CHAT, json=hello())):
        assert server.line_of(response.headers["x-request-id"])["status"] == response.status_code
