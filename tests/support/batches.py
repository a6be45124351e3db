"""Clients of a batch: what they were told, and waiting for it."""

import random
import threading
from dataclasses import dataclass, field

from strata_runtime.batch import Event, Failure
from support.fake_engine import FakeModel, hashed

PATIENCE = 60.0
VOCAB = 300


@dataclass(eq=False)
class Client:
    """One request and all that its listener was told."""

    told: list = field(default_factory=list)
    ticket: object = None
    on_event: object = None
    news: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, what):
        with self.news:
            assert not self.has_ended, "nothing is told behind the end"
            self.told.append(what)
            self.news.notify_all()
        if self.on_event is not None:
            self.on_event(self, what)

    @property
    def has_ended(self):
        return bool(self.told) and (isinstance(self.told[-1], Failure) or self.told[-1].finish is not None)

    def wait(self, until=lambda client: client.has_ended):
        """Wait until something holds of this client: the end, unless given."""
        with self.news:
            assert self.news.wait_for(lambda: until(self) or self.has_ended, PATIENCE), self.told[-3:]
        return self

    @property
    def tokens(self):
        return [event.token_id for event in self.told if isinstance(event, Event) and event.token_id is not None]

    @property
    def text(self):
        return "".join(event.text for event in self.told if isinstance(event, Event))

    @property
    def finish(self):
        last = self.told[-1]
        return last.finish if isinstance(last, Event) else last


def ask(batch, ids, sampling, on_event=None, **request):
    """Submit a request and return its client."""
    client = Client(on_event=on_event)
    client.ticket = batch.submit(ids, sampling, listener=client, **request)
    return client


def prompt(tokens, seed=0):
    """Token ids of a text that looks random."""
    return random.Random(seed).choices(range(4, VOCAB), k=tokens)


def same(client, result):
    """Wait for a client's end, and compare all that it was told with what the request gives alone."""
    assert client.wait().finish == result.finish_reason
    assert client.tokens == list(result.token_ids)
    assert client.text == result.text


class Gated(FakeModel):
    """A network whose passes of prompts wait to be let through, one by one."""

    def __init__(self, context_length=512):
        super().__init__(VOCAB, hashed(VOCAB), context_length)
        self.gate = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)

    def forward(self, ids, cache, **more):
        if not more.get("window"):
            self.begun.release()
            assert self.gate.acquire(timeout=PATIENCE)
        return super().forward(ids, cache, **more)

    def let(self, passes):
        """Let so many passes through."""
        self.gate.release(passes)

    def wait(self):
        """Wait until one more pass has begun."""
        assert self.begun.acquire(timeout=PATIENCE)
