"""Middleware around everything: a name for each request, its line in the journal, and no fault without an answer."""

from __future__ import annotations

import traceback
from time import monotonic
from uuid import uuid4

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from strata_runtime.serve.errors import ApiError, error_response
from strata_runtime.serve.service import Service

STARTED = "strata.started"
"""Key of a request's scope: when it came, a time of `monotonic`."""
ID = "strata.id"
"""Key of a request's scope: its name."""
FACTS = "strata.facts"
"""Key of a request's scope: a dict that endpoints add to, for the request's line."""

_PATHS = frozenset(
    {"/v1/completions", "/v1/chat/completions", "/v1/models", "/status", "/metrics", "/health", "/openapi.json", "/"}
)
_QUIET = frozenset({"/", "/health", "/metrics", "/status"})


class Recorder:
    """Gives each request a name, says how it went, and turns what nobody expected into an answer."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app = app
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, name = monotonic(), uuid4().hex
        facts: dict[str, object] = {}
        status = 0

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["x-request-id"] = name
            await send(message)

        scope.update({FACTS: facts, STARTED: started, ID: name})
        # Of an answer to HEAD the server sends no body.
        asked = {**scope, "method": "GET"} if scope["method"] == "HEAD" else scope
        try:
            await self._app(asked, receive, noting)
        except Exception as problem:  # noqa: BLE001
            # Whatever it is, the server goes on.
            text = "".join(traceback.format_exception(problem))
            self._service.journal.say("fault", id=name, problem=text)
            if not status:
                failed = ApiError(500, "the server failed at this request; its log says more", code="internal")
                await error_response(failed)(scope, receive, noting)
        finally:
            self._record(scope, status, monotonic() - started, facts)

    def _record(self, scope: Scope, status: int, seconds: float, facts: dict[str, object]) -> None:
        path = scope["path"]
        if status:
            self._service.metrics.responses.labels(path if path in _PATHS else "other", str(status)).inc()
        if status >= 400 or path not in _QUIET:
            named = {"id": scope[ID], "method": scope["method"], "path": path, "status": status or None}
            self._service.journal.say("request", **named, **facts, seconds=seconds)
