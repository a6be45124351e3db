"""Streams: their order, whole characters, and how they end."""

import json
import socket
import threading
import time

import httpx2
import pytest

from strata_runtime.batch.events import Failure
from support.serving import CHAT, TEXT, chunks, hello, saying, until

ANSWER = "Grüße, 世界 🙂!"


def test_a_chat_comes_in_order_and_in_whole_characters(client):
    with client.stream("POST", CHAT, json=hello(stream=True)) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        found = chunks(response)
    assert {each["object"] for each in found} == {"chat.completion.chunk"}
    assert len({each["id"] for each in found}) == 1
    assert all("usage" not in each for each in found)
    choices = [each["choices"][0] for each in found]
    assert choices[0]["delta"] == {"role": "assistant", "content": ""}
    assert [each["delta"]["content"] for each in choices[1:-1]] == list(ANSWER)
    assert choices[-1]["delta"] == {}
    assert [each["finish_reason"] for each in choices] == [None] * (len(choices) - 1) + ["stop"]


def test_a_completion_comes_in_order_and_in_whole_characters(client):
    with client.stream("POST", TEXT, json={"prompt": "abc", "max_tokens": 99, "stream": True}) as response:
        choices = [each["choices"][0] for each in chunks(response)]
    assert [each["text"] for each in choices] == [*ANSWER, ""]
    assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize(("path", "body"), [(CHAT, hello()), (TEXT, {"prompt": "abc"})])
def test_the_usage_is_a_last_chunk_of_its_own_where_asked_for(client, path, body):
    with client.stream(
        "POST", path, json={**body, "stream": True, "stream_options": {"include_usage": True}}
    ) as response:
        *others, last = chunks(response)
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] > 0
    assert all("usage" not in each for each in others)


@pytest.mark.parametrize(("path", "body"), [(CHAT, hello()), (TEXT, {"prompt": "abc"})])
def test_load_generators_get_the_usage_so_far_with_every_chunk(client, path, body):
    options = {"stream": True, "stream_options": {"include_usage": True, "continuous_usage_stats": True}}
    with client.stream("POST", path, json={**body, **options}) as response:
        found = chunks(response)
    counts = [each["usage"]["completion_tokens"] for each in found if each["choices"] != [] and each.get("usage")]
    assert len(counts) > 5
    assert counts == sorted(counts)
    assert counts[1] < counts[-1]
    assert found[-1]["choices"] == []
    assert found[-1]["usage"]["completion_tokens"] == counts[-1]


def test_text_is_sent_when_it_is_there_and_not_later(client, engine, batch):
    go_on = threading.Event()

    def script(_):
        yield from engine.tokenizer.encode("one")
        yield go_on
        yield from engine.tokenizer.encode("two")

    batch.script = script
    with client.stream("POST", TEXT, json={"prompt": "abc", "stream": True}) as response:
        texts = []
        for line in response.iter_lines():
            if line.startswith("data: {"):
                texts.append(json.loads(line[6:])["choices"][0]["text"])
            if "".join(texts) == "one":
                go_on.set()
    assert "".join(texts) == "onetwo"


def test_a_stop_string_is_held_back_until_it_is_certain(client, engine, batch):
    batch.script = saying(engine, "ab<no>cd<end>ef")
    with client.stream("POST", CHAT, json=hello(stream=True, stop=["<end>"])) as response:
        texts = [each["choices"][0]["delta"].get("content", "") for each in chunks(response)]
    assert "".join(texts) == "ab<no>cd"
    assert "<no" in "".join(texts)


def test_a_failure_in_a_stream_is_its_last_word(client, engine, batch):
    batch.script = lambda _: iter([*engine.tokenizer.encode("ab"), Failure("the half stalled")])
    with client.stream("POST", TEXT, json={"prompt": "abc", "stream": True}) as response:
        *texts, last = chunks(response)
    assert "".join(each["choices"][0]["text"] for each in texts) == "ab"
    assert last["error"] == {"message": "the half stalled", "type": "server_error", "param": None, "code": "failed"}
    assert client.post(TEXT, json={"prompt": "abc"}).status_code == 500


def test_only_the_failed_request_ends(client, engine, batch):
    batch.script = lambda _: iter([Failure("too hot")])
    assert client.post(TEXT, json={"prompt": "abc"}).status_code == 500
    batch.script = saying(engine, "fine")
    assert client.post(TEXT, json={"prompt": "abc"}).json()["choices"][0]["text"] == "fine"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_client_that_leaves_frees_its_slot_at_once(server, engine, batch, stream, has_begun):
    never = threading.Event()

    def script(_):
        if not has_begun:
            yield never
        for token in engine.tokenizer.encode("again " * 1000):
            yield token
            yield 0.02

    batch.script = script
    body = json.dumps(hello(stream=stream)).encode()
    with socket.create_connection((httpx2.URL(server.url).host, httpx2.URL(server.url).port)) as left:
        left.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" % CHAT.encode())
        left.sendall(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        until(lambda: batch.tickets and (batch.tickets[0].completion_tokens > 2 or not has_begun))
    until(batch.tickets[0].over.is_set, 2.0)
    until(lambda: any(line.get("finish") == "left" for line in server.lines))


def test_a_silent_stream_gives_signs_of_life(client, engine, batch, monkeypatch):
    monkeypatch.setattr("strata_runtime.serve.exchange.SILENCE_S", 0.05)
    batch.script = lambda _: iter([0.2, *engine.tokenizer.encode("ab")])
    with client.stream("POST", TEXT, json={"prompt": "abc", "stream": True}) as response:
        lines = [line for line in response.iter_lines() if line]
    assert lines[0].startswith(":")
    assert lines[-1] == "data: [DONE]"


def test_an_answer_that_takes_too_long_is_ended(serve, engine):
    server = serve(saying(engine, "again ", repeat=True, pause=0.01), answer_s=0.3)
    with httpx2.Client(base_url=server.url) as client:
        whole = client.post(CHAT, json=hello())
        with client.stream("POST", CHAT, json=hello(stream=True)) as response:
            *texts, last = chunks(response)
    assert whole.status_code == 504
    assert whole.json()["error"]["code"] == last["error"]["code"] == "timeout"
    assert len(texts) > 5
    until(lambda: not server.batch.running, 2.0)


def test_one_connection_serves_many_requests(client, server):
    for _ in range(3):
        assert client.post(CHAT, json=hello()).status_code == 200
        assert client.get("/v1/nothing").status_code == 404
        with client.stream("POST", CHAT, json=hello(stream=True)) as response:
            chunks(response)
    assert len(server.server.server_state.connections) == 1


def test_a_client_that_reads_slowly_gets_all_of_it(client, engine, batch):
    text = "0123456789" * 60
    batch.script = saying(engine, text)
    with client.stream("POST", TEXT, json={"prompt": "abc", "max_tokens": 10_000, "stream": True}) as response:
        time.sleep(0.3)
        texts = [each["choices"][0]["text"] for each in chunks(response)]
    assert "".join(texts) == text


def test_many_streams_at_once_are_not_mixed_up(server, engine, batch):
    texts = {f"prompt {at}": f"answer {at} " * 20 for at in range(24)}
    batch.script = lambda asked: saying(engine, texts[engine.tokenizer.decode(asked.ids)])(asked)
    found = {}

    def ask(prompt):
        with httpx2.Client(base_url=server.url, timeout=20) as client:
            body = {"prompt": prompt, "max_tokens": 1000, "stream": True}
            with client.stream("POST", TEXT, json=body) as response:
                found[prompt] = "".join(each["choices"][0]["text"] for each in chunks(response))

    threads = [threading.Thread(target=ask, args=(prompt,)) for prompt in texts]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == texts
