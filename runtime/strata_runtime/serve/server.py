"""The server's process: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from strata_runtime.errors import UserError
from strata_runtime.serve.app import make_app
from strata_runtime.serve.connection import ACCEPTED_AT_ONCE, connections
from strata_runtime.serve.service import Service

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BACKLOG = 1024
_LAST_WORDS_S = 5.0
"""Beyond the time for running answers: what connections get for being told."""


def reserve(host: str, port: int) -> socket.socket:
    """Bind the socket of a server; port 0 takes any free one. Connections are refused until `listen`.

    Raises `UserError` when that cannot be: the port is taken, or the host is none of this machine's.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as problem:
        raise UserError(f"--host {host}: {getattr(problem, 'strerror', None) or 'not a host name'}") from None
    # With its protocol named: asyncio sends small packets at once (TCP_NODELAY) only where it sees TCP.
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        opened.bind(address)
    except OSError as problem:
        opened.close()
        raise _taken(host, port, problem) from None
    return opened


def listen(opened: socket.socket) -> None:
    """Take connections from now on. Raises `UserError` when another program was faster."""
    try:
        opened.listen(_BACKLOG)
    except OSError as problem:
        host, port = opened.getsockname()[:2]
        raise _taken(host, port, problem) from None


def _taken(host: str, port: int, problem: OSError) -> UserError:
    return UserError(f"cannot listen on {host}, port {port}: {problem.strerror}; choose another --port or --host")


def url(opened: socket.socket) -> str:
    """Return where a listening socket is reached."""
    host, port = opened.getsockname()[:2]
    return f"http://[{host}]:{port}" if opened.family == socket.AF_INET6 else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """Serves until the first SIGINT or SIGTERM, then lets running answers come to their end; the second ends it."""

    def __init__(self, config: uvicorn.Config, service: Service, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._ready = ready

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals while serving."""
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; at the second call, end."""
        if self.should_exit:
            os._exit(128 + sig)  # threads of the batch may be in the middle of anything: nothing is waited for
        self._service.is_stopping = True
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve, and say so."""
        await super().startup(sockets)
        for opened in sockets or ():
            listen(opened)
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and end when all answers are given."""
        service = self._service
        service.journal.say("stopping", drain_s=service.options.drain_s)
        closing = asyncio.create_task(asyncio.to_thread(service.batch.close, service.options.drain_s))
        await super().shutdown(sockets)
        await closing
        service.journal.say("stopped")


def configured(service: Service) -> uvicorn.Config:
    """Return how the application of a service is run."""
    return uvicorn.Config(
        make_app(service),
        http=connections(service.options.read_s),
        loop="asyncio",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_graceful_shutdown=int(service.options.drain_s + _LAST_WORDS_S),
    )


def run(service: Service, opened: socket.socket, ready: Callable[[], None]) -> None:
    """Serve on a listening socket until a signal comes; the batch is closed then. On the main thread.

    ready: called when requests are answered and signals are taken.
    """
    logging.getLogger("uvicorn.error").disabled = True  # the journal says it
    Server(configured(service), service, ready).run(sockets=[opened])
