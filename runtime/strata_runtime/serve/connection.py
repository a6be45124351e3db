"""One connection: requests whose heads do not come in time are not waited for, nor idle clients where others wait."""

from __future__ import annotations

import asyncio
import resource
import sys
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

ACCEPTED_AT_ONCE = 16
"""Connections that are taken before the first of them is looked at."""
_SHARE = 0.5
"""Of the files that the process may open: some more are taken before the first of them are closed."""
_LEAST = 16


class Connection(H11Protocol):
    """uvicorn's, closed when a request's head is not there in time; between requests its own limit holds."""

    head_s = 0.0
    """Seconds for a head, from the connection or the head's first byte on; 0 is any."""
    most = _LEAST
    """Connections at the same time: beyond, the one that has been idle for longest is closed for a new one."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._limit: asyncio.TimerHandle | None = None
        self._heard = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first head."""
        super().connection_made(transport)
        self._heard = self.loop.time()
        self._wait()
        if len(self.connections) > self.most:
            self._make_room()

    @property
    def is_idle(self) -> bool:
        """Whether no request is answered, and no answer still on its way."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return is_answered and not self.transport.get_write_buffer_size()

    def _make_room(self) -> None:
        idle = [each for each in self.connections if isinstance(each, Connection) and each.is_idle]
        longest = min(idle, key=lambda each: each._heard, default=self)
        self.connections.discard(longest)
        longest.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take bytes."""
        self._heard = self.loop.time()
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
    """Return the class of connections with this limit, as uvicorn makes them, and with what the process may open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    room = sys.maxsize if files == resource.RLIM_INFINITY else int(files * _SHARE)
    return type("Connection", (Connection,), {"head_s": head_s, "most": max(_LEAST, room)})
