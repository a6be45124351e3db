"""Who may ask, and how much: keys, sizes, times, other websites."""

import socket
from contextlib import ExitStack

import httpx2
import pytest

from support.serving import CHAT, FakeBatch, chunks, hello, running, saying, until

JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
def locked(engine):
    keys = frozenset({"first-key", "second-key"})
    with running(engine, FakeBatch(engine, saying(engine, "Hi")), model="fake", keys=keys) as server:
        yield server


@pytest.mark.parametrize("key", ["first-key", "second-key"])
def test_any_key_opens_the_api(locked, key):
    with httpx2.Client(base_url=locked.url, headers={"authorization": f"Bearer {key}"}) as client:
        assert client.post(CHAT, json=hello()).status_code == 200
        assert [client.get(path).status_code for path in ("/v1/models", "/status", "/metrics")] == [200] * 3


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "missing_api_key"),
        ("Bearer", "missing_api_key"),
        ("Basic first-key", "missing_api_key"),
        ("Bearer first-ke", "invalid_api_key"),
        ("Bearer first-key2", "invalid_api_key"),
        ("Bearer f\xfcrst", "invalid_api_key"),
    ],
)
@pytest.mark.parametrize("path", [CHAT, "/v1/models", "/status", "/metrics", "/v1/nothing"])
def test_without_one_nothing_is_told(locked, header, code, path):
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    response = httpx2.request("POST" if path == CHAT else "GET", locked.url + path, headers=headers)
    assert response.status_code == 401
    assert response.json()["error"]["code"] == code
    assert response.headers["www-authenticate"] == "Bearer"


def test_page_health_and_description_are_open(locked):
    assert [httpx2.get(locked.url + path).status_code for path in ("/", "/health", "/openapi.json")] == [200] * 3


def test_a_body_up_to_the_limit_is_read_and_a_larger_one_is_not(client, server):
    limit = server.service.options.body_bytes
    start, end = b'{"prompt": "a"', b"}"
    fits = start + b" " * (limit - len(start) - len(end)) + end
    assert client.post("/v1/completions", content=fits, headers=JSON).status_code == 200
    response = client.post("/v1/completions", content=fits + b" ", headers=JSON)
    assert response.status_code == 413
    assert "64.0 KiB" in response.json()["error"]["message"]


def test_a_body_without_a_length_is_measured_as_it_comes(client, server):
    pieces = (b" " * 1000 for _ in range(1 + server.service.options.body_bytes // 1000))
    assert client.post(CHAT, content=pieces, headers=JSON).status_code == 413


def test_a_body_far_beyond_the_limit_still_gets_its_answer(client):
    assert client.post(CHAT, content=b" " * (8 << 20), headers=JSON).status_code == 413


def test_a_body_that_does_not_come_is_not_waited_for(serve):
    server = serve(read_s=0.2)
    url = httpx2.URL(server.url)
    with socket.create_connection((url.host, url.port), timeout=10) as slow:
        slow.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
        answer = b""
        while piece := slow.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b'"code":"read_timeout"' in answer


@pytest.mark.parametrize("begun", [b"", b"G", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_a_head_that_does_not_come_is_not_waited_for(serve, begun):
    url = httpx2.URL(serve(read_s=0.3).url)
    with socket.create_connection((url.host, url.port), timeout=10) as slow:
        slow.sendall(begun)
        assert slow.recv(1) == b""


def test_nor_is_a_later_one_on_the_same_connection(serve):
    url = httpx2.URL(serve(read_s=0.3).url)
    with socket.create_connection((url.host, url.port), timeout=10) as slow:
        slow.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert slow.recv(65536).startswith(b"HTTP/1.1 200 ")
        slow.sendall(b"GET /hea")
        while slow.recv(65536):
            pass


def test_an_answer_may_take_longer_than_a_head(engine):
    batch = FakeBatch(engine, saying(engine, "Hello", pause=0.7))
    with running(engine, batch, model="fake", read_s=0.3) as server:
        answer = httpx2.post(server.url + CHAT, json=hello())
        assert answer.json()["choices"][0]["message"]["content"] == "Hello"


def test_idle_connections_make_room_and_answers_go_on(engine, serve, monkeypatch):
    monkeypatch.setattr("strata_runtime.serve.connection.resource.getrlimit", lambda _: (20, 20))
    server = serve(saying(engine, "Hello", pause=0.2))
    url = httpx2.URL(server.url)
    with ExitStack() as opened, httpx2.stream("POST", server.url + CHAT, json=hello(stream=True)) as answer:
        idle = [opened.enter_context(socket.create_connection((url.host, url.port), timeout=10)) for _ in range(60)]
        assert httpx2.get(server.url + "/health").status_code == 200
        assert idle[0].recv(1) == b""
        idle[-1].sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert idle[-1].recv(65536).startswith(b"HTTP/1.1 200 ")
        assert len(server.server.server_state.connections) <= 16
        assert "".join(each["choices"][0]["delta"].get("content", "") for each in chunks(answer)) == "Hello"


def test_a_head_without_its_body_is_answered_as_the_whole_is(client):
    for path in ("/", "/health", "/v1/models", "/metrics", "/openapi.json", "/nothing"):
        head, whole = client.head(path), client.get(path)
        assert (head.status_code, head.content) == (whole.status_code, b"")
        assert head.headers["content-type"] == whole.headers["content-type"]


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:1234",
        "localhost.",
        "127.0.0.1:8000",
        "[::1]:8000",
        "[::1]",
        "[0:0:0:0:0:0:0:1]:80",
    ],
)
def test_names_of_the_server_are_taken(serve, host):
    server = serve(hosts=frozenset({"localhost", "127.0.0.1", "::1"}))
    assert httpx2.get(server.url + "/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "other.example",
        "localhost.other.example:80",
        "127.0.0.1.other",
        "[",
        "",
        ".",
        "[::2]",
        "[localhost]",
        "::1",
        "user@localhost",
        "localhost/other",
        "localhost?other",
        "localhost#other",
        "localhost:80:80",
        "localhost:other",
    ],
)
def test_other_names_are_not(serve, host):
    server = serve(hosts=frozenset({"localhost", "127.0.0.1", "::1"}))
    refused = httpx2.get(server.url + "/health", headers={"host": host})
    assert refused.status_code == 403
    assert refused.json()["error"]["code"] == "host_not_allowed"


def test_a_request_without_a_name_is_told_so(serve):
    url = httpx2.URL(serve(hosts=frozenset({"localhost"})).url)
    with socket.create_connection((url.host, url.port), timeout=10) as old:
        old.sendall(b"GET /health HTTP/1.0\r\n\r\n")
        answer = b""
        while piece := old.recv(65536):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"the request does not say whom it calls: --allowed-host" in answer


@pytest.mark.parametrize(
    ("header", "status"), [(b"Host: other", 403), (b"Host: localhost", 401), (b"Authorization: Bearer k", 413)]
)
def test_a_body_that_is_not_wanted_is_not_asked_for(serve, header, status):
    hosts = frozenset({"localhost"})
    url = httpx2.URL(serve(hosts=hosts, keys=frozenset({"k"})).url)
    host = b"" if header.startswith(b"Host") else b"\r\nHost: localhost"
    head = b"POST /v1/completions HTTP/1.1\r\n" + header + host + b"\r\nExpect: 100-continue\r\n"
    with socket.create_connection((url.host, url.port), timeout=10) as asking:
        asking.sendall(head + b"Content-Length: 999999999\r\n\r\n")
        assert asking.recv(65536).startswith(b"HTTP/1.1 %d " % status)


def test_a_client_that_leaves_before_its_body_is_there_leaves_nothing_behind(client, server):
    url = httpx2.URL(server.url)
    with socket.create_connection((url.host, url.port)) as left:
        left.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{")
    until(lambda: not server.server.server_state.tasks)
    assert [line for line in server.lines if line["event"] == "fault"] == []
    assert client.get("/health").status_code == 200


def test_other_websites_are_told_nothing_unless_they_are_named(client, serve):
    theirs = {"origin": "http://other.example"}
    assert "access-control-allow-origin" not in client.get("/v1/models", headers=theirs).headers
    named = serve(origins=("http://other.example",), keys=frozenset({"k"}))
    with httpx2.Client(base_url=named.url) as other:
        asked = {**theirs, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        assert other.options(CHAT, headers=asked).status_code == 200
        told = other.get("/v1/models", headers={**theirs, "authorization": "Bearer k"}).headers
        assert told["access-control-allow-origin"] == "http://other.example"
        refused = other.get("/v1/models", headers=theirs)
        assert refused.status_code == 401
        assert refused.headers["access-control-allow-origin"] == "http://other.example"
        assert "access-control-allow-origin" not in other.get("/", headers={"origin": "http://third.example"}).headers
