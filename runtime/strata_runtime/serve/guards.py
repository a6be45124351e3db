"""Middleware before the endpoints: who may ask, and how much."""

from __future__ import annotations

import asyncio
import hmac

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strata_runtime.serve.errors import ApiError, error_response
from strata_runtime.serve.hosts import name_in
from strata_runtime.serve.options import ServeOptions
from strata_runtime.sizes import size

_OPEN = frozenset({"/", "/health", "/openapi.json"})
"""Paths without secrets: the page asks for the key itself."""
_PATIENCE_S = 1.0
"""How long a body that is refused is read on, so that its sender gets to read the answer."""


class Guards:
    """Checks a request's host and key, then takes its whole body, within the limits, before anything else sees it."""

    def __init__(self, app: ASGIApp, options: ServeOptions) -> None:
        self._app = app
        self._options = options
        self._keys = [key.encode() for key in options.keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_key(scope["path"], headers)
            body = await self._body(headers, receive)
        except ApiError as error:
            if not _waits_for_leave(headers, error):
                await _discard(receive)
            error.headers["connection"] = "close"
            await error_response(error)(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, _replay(body, receive), send)

    def _check_host(self, headers: Headers) -> None:
        """Refuse a website that lets its own name lead to this machine: the browser thinks that both are one."""
        if not self._options.hosts:
            return
        given = headers.get("host", "")
        if name_in(given) not in self._options.hosts:
            wrong = f"this server is not called {given:.100}" if given else "the request does not say whom it calls"
            words = f"{wrong}: --allowed-host lets the server be called by further names"
            raise ApiError(403, words, code="host_not_allowed")

    def _check_key(self, path: str, headers: Headers) -> None:
        if not self._keys or path in _OPEN:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not given:
            raise ApiError(
                401,
                "an API key is needed: send 'Authorization: Bearer KEY'",
                code="missing_api_key",
                headers={"www-authenticate": "Bearer"},
            )
        data = given.strip().encode("utf-8", "replace")
        # Every one is compared, so that time tells nothing.
        if not sum(hmac.compare_digest(data, key) for key in self._keys):
            raise ApiError(401, "the API key is wrong", code="invalid_api_key", headers={"www-authenticate": "Bearer"})

    async def _body(self, headers: Headers, receive: Receive) -> bytes | None:
        """Return the body; None when the client leaves before it is there."""
        limit = self._options.body_bytes
        length = headers.get("content-length", "")
        too_large = ApiError(413, f"the body is larger than {size(limit)}, the most that is taken", code="too_large")
        if length.isdecimal() and int(length) > limit:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._options.read_s or None):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    body += message.get("body", b"")
                    if len(body) > limit:
                        raise too_large
                    if not message.get("more_body", False):
                        return bytes(body)
        except TimeoutError:
            words = f"the body did not come within {self._options.read_s:g} s"
            raise ApiError(408, words, code="read_timeout") from None


def _waits_for_leave(headers: Headers, error: ApiError) -> bool:
    """Whether the body was not begun, as its sender waits to be told to send it."""
    return error.status != 408 and headers.get("expect", "").lower() == "100-continue"


async def _discard(receive: Receive) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while (await receive()).get("more_body", False):
                pass
    except TimeoutError:
        pass


def _replay(body: bytes, receive: Receive) -> Receive:
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return first.pop() if first else await receive()

    return replayed
