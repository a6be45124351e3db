"""`strata serve` as a process: start, log, signals, and how it ends."""

import json
import signal
import socket
import threading
import time

import httpx2
import pytest

from support.served import fake
from support.serving import CHAT, hello, until
from support.text_models import write_folder


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return write_folder(tmp_path_factory.mktemp("models") / "small")


class Stream(threading.Thread):
    """Reads a stream to its end, chunk by chunk, or until the connection breaks."""

    def __init__(self, url):
        super().__init__()
        self.url, self.found, self.broke = url, [], False

    def run(self):
        body = hello(stream=True, max_tokens=40)
        try:
            with httpx2.stream("POST", self.url + CHAT, json=body, timeout=30) as response:
                for line in response.iter_lines():
                    if line.startswith("data: "):
                        self.found.append(line[6:])
        except httpx2.TransportError:
            self.broke = True


def begun(server) -> Stream:
    """A stream that has begun."""
    each = Stream(server.url)
    each.start()
    until(lambda: len(each.found) > 3)
    return each


def events(server) -> list[str]:
    return [line["event"] for line in server.lines]


def test_a_running_stream_comes_to_its_end_and_nobody_else_is_let_in(model):
    with fake("--model", model, "--batch", "3", "--drain", "30", FAKE_DELAY="0.03") as server:
        assert server.facts["model"] == "small"
        assert server.facts["slots"] == 3
        running = begun(server)
        server.process.send_signal(signal.SIGTERM)
        until(lambda: "stopping" in events(server))
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((httpx2.URL(server.url).host, httpx2.URL(server.url).port))
        running.join(30)
        assert server.process.wait(20) == 0
        assert server.process.stdout.read() == ""
    assert running.found[-1] == "[DONE]"
    assert json.loads(running.found[-2])["choices"][0]["finish_reason"] == "length"
    assert events(server) == ["stopping", "request", "stopped"]


def test_what_does_not_end_in_time_is_ended_cleanly(model):
    with fake("--model", model, "--drain", "0.3", FAKE_DELAY="0.2") as server:
        running = begun(server)
        assert server.stop(signal.SIGINT) == 0
        running.join(10)
    assert running.found[-1] == "[DONE]"
    assert json.loads(running.found[-2])["error"]["code"] == "stopping"
    assert [line["finish"] for line in server.lines if line["event"] == "request"] == ["stopping"]


def test_the_second_signal_ends_it_at_once(model):
    with fake("--model", model, "--drain", "60", FAKE_DELAY="0.5") as server:
        running = begun(server)
        server.process.send_signal(signal.SIGINT)
        until(lambda: "stopping" in events(server))
        began = time.monotonic()
        assert server.stop(signal.SIGINT) == 128 + signal.SIGINT
        assert time.monotonic() - began < 10
        running.join(10)
    assert running.broke
