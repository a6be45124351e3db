"""What is seen of a running server: its page, health, status and metrics."""

from __future__ import annotations

import base64
import hashlib
import re
from dataclasses import asdict
from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import APIRouter, Response
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from strata_runtime.serve.errors import as_json
from strata_runtime.serve.routes import REFUSED
from strata_runtime.serve.service import Service

_INLINE = re.compile(rb"<(style|script)>(.*?)</\1>", re.DOTALL)


def monitor(service: Service) -> APIRouter:
    """Make the endpoints beside the API."""
    router = APIRouter(tags=["Monitor"])

    @router.get("/", include_in_schema=False)
    async def page() -> Response:
        data, policy = _page()
        return Response(data, media_type="text/html", headers=policy)

    @router.get("/health", responses={503: {"description": "The server is stopping."}})
    async def health() -> Response:
        """Say whether requests are taken."""
        word, status = ("stopping", 503) if service.is_stopping else ("ok", 200)
        return Response(as_json({"status": word}), status, media_type="application/json")

    @router.get("/status", response_model=dict[str, Any], responses=REFUSED)
    async def status() -> Response:
        """Describe slots, queue, speed and where the time of windows goes."""
        return Response(as_json(_facts(service)), media_type="application/json", headers={"cache-control": "no-store"})

    @router.get(
        "/metrics",
        response_class=Response,
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **REFUSED},
    )
    async def metrics() -> Response:
        """Give the metrics in Prometheus' text format."""
        return Response(service.metrics.exposition(), headers={"content-type": CONTENT_TYPE_PLAIN_0_0_4})

    return router


def _facts(service: Service) -> dict[str, Any]:
    engine, status = service.engine, asdict(service.batch.status())
    named = {"model": service.options.model, "context": engine.context, "drafter": engine.settings.window.draft}
    return {**named, **status, "phases": dict(status["phases"])}


@cache
def _page() -> tuple[bytes, dict[str, str]]:
    """Return the page, and headers that let it run its own script and nothing else."""
    data = files("strata_runtime.serve").joinpath("page.html").read_bytes()
    allowed = {tag.decode(): _digest(body) for tag, body in _INLINE.findall(data)}
    policy = (
        f"default-src 'none'; style-src {allowed['style']}; script-src {allowed['script']}; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return data, {
        "content-security-policy": policy,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-cache",
    }


def _digest(body: bytes) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(body).digest()).decode()}'"
