"""One connection: requests whose heads do not come in time are not waited for."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol


class Connection(H11Protocol):
    """uvicorn's, closed when a request's head is not there in time; between requests its own, shorter limit holds."""

    head_s = 0.0
    """Seconds for a head, from the connection or the head's first byte on; 0 is any."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._wait_no_more()
        elif self._limit is None:
            self._wait()

    def _wait(self) -> None:
        if self.head_s:
            self._limit = self.loop.call_later(self.head_s, self.transport.close)

    def _wait_no_more(self) -> None:
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None


def connections(head_s: float) -> type[Connection]:
    """Return the class of connections with this limit, as uvicorn makes them."""
    return type("Connection", (Connection,), {"head_s": head_s})
