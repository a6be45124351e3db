"""Clients of a batch: what they were told, and waiting for it."""

import threading
from dataclasses import dataclass, field

from strata_runtime.batch import Event, Failure

PATIENCE = 60.0


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
