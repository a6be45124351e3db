"""The application: endpoints and middleware around a service."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from starlette.middleware.cors import CORSMiddleware

from strata_runtime import __version__
from strata_runtime.serve import errors
from strata_runtime.serve.guards import Guards
from strata_runtime.serve.monitor import monitor
from strata_runtime.serve.recorder import Recorder
from strata_runtime.serve.routes import api
from strata_runtime.serve.service import Service


def make_app(service: Service) -> FastAPI:
    """Put the application together."""
    app = FastAPI(title="strata", version=__version__, docs_url=None, redoc_url=None)
    errors.install(app)
    app.include_router(api(service))
    app.include_router(monitor(service))
    # The last one added is the outermost.
    app.add_middleware(Guards, options=service.options)
    if service.options.origins:
        app.add_middleware(
            CORSMiddleware,
            allow_origins=service.options.origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["x-request-id", "retry-after"],
        )
    app.add_middleware(Recorder, service=service)
    app.openapi = lambda: _description(app)  # type: ignore[method-assign]
    return app


def _description(app: FastAPI) -> dict[str, Any]:
    """Describe the API. What FastAPI says of its own form of errors is left out: it is never sent."""
    if app.openapi_schema is None:
        found = get_openapi(title=app.title, version=app.version, routes=app.routes)
        for methods in found["paths"].values():
            for operation in methods.values():
                operation["responses"].pop("422", None)
        for name in ("HTTPValidationError", "ValidationError"):
            found["components"]["schemas"].pop(name, None)
        app.openapi_schema = found
    return app.openapi_schema
