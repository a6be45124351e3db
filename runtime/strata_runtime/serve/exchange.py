"""One request between the batch's thread and the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from enum import Enum, auto
from time import monotonic

from starlette.types import Receive

from strata_runtime.batch.batch import Ticket
from strata_runtime.batch.events import Event, Failure
from strata_runtime.serve.errors import ApiError

SILENCE_S = 10.0
"""After so long without an event the client is given a sign of life."""


class ClientLeft(Exception):
    """The client closed its connection: nobody waits for the answer."""


class _Sign(Enum):
    LEFT = auto()


class Exchange:
    """Takes events from the batch's thread, hands them out on the event loop's.

    `started`: when the request came, a time of `monotonic`. `first_s`: seconds from there to the first token. `finish`:
    how the request ended by itself.
    """

    def __init__(self, started: float) -> None:
        """To be made on the event loop's thread."""
        self.started = started
        self.first_s: float | None = None
        self.finish: str | None = None
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[Event | Failure | _Sign] = asyncio.Queue()

    def listen(self, event: Event | Failure) -> None:
        """Take an event, on any thread."""
        if self.first_s is None and isinstance(event, Event) and event.token_id is not None:
            self.first_s = monotonic() - self.started
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            self._loop.call_soon_threadsafe(self._queue.put_nowait, event)

    async def events(self, ticket: Ticket, receive: Receive) -> AsyncGenerator[Event | None]:
        """Yield events up to the one that ends the request; None after a while without any.

        However this ends, the ticket is cancelled unless the request is over. Raises `ClientLeft`, and `ApiError` when
        the request fails or is ended from here.
        """
        watch = asyncio.create_task(self._watch(receive))
        over = False
        try:
            while not over:
                item = await self._next()
                if isinstance(item, _Sign):
                    raise ClientLeft
                over = isinstance(item, Failure) or (item is not None and item.finish is not None)
                yield self._checked(item)
        finally:
            watch.cancel()
            if not over:
                ticket.cancel()

    async def _next(self) -> Event | Failure | _Sign | None:
        try:
            async with asyncio.timeout(SILENCE_S):
                return await self._queue.get()
        except TimeoutError:
            return None

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        self._queue.put_nowait(_Sign.LEFT)

    def _checked(self, item: Event | Failure | None) -> Event | None:
        if isinstance(item, Failure):
            raise ApiError(500, item.message, code="failed")
        if item is not None and item.finish == "cancelled":
            raise ApiError(503, "the server is stopping: the answer was cut off", code="stopping")
        if item is not None:
            self.finish = item.finish
        return item
