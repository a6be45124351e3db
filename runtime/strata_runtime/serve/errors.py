"""Errors of the API, in the shape that clients of OpenAI's know."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from strata_runtime.nearest import did_you_mean
from strata_runtime.serve.requests import HINTS, ChatRequest, CompletionRequest

_FIELDS = {*ChatRequest.model_fields, *CompletionRequest.model_fields}
_QUOTED = 200
"""Most characters of a user's own text in a message."""


class ApiError(Exception):
    """An answer that is an error. `param` names the field of the request, `code` is for programs."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.param = param
        self.headers = dict(headers or {})

    @property
    def body(self) -> dict[str, dict[str, str | None]]:
        """The error as clients get it."""
        return {
            "error": {"message": str(self), "type": _kind(self.status), "param": self.param, "code": self.code},
        }


def _kind(status: int) -> str:
    if status >= 500:
        return "server_error"
    return "rate_limit_error" if status == 429 else "invalid_request_error"


def as_json(value: object) -> bytes:
    """Write JSON in UTF-8; characters that it does not have (lone surrogates) become question marks."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def error_response(error: ApiError) -> Response:
    """Make the response of an error."""
    return Response(as_json(error.body), error.status, error.headers, "application/json")


def invalid(errors: Sequence[Mapping[str, Any]]) -> ApiError:
    """Make the error of a body that its model refuses, from what pydantic says of it."""
    first = errors[0]
    if first["type"] == "json_invalid":
        where = f"{first['ctx']['error']} at character {first['loc'][-1]}"
        return ApiError(400, f"the body is not valid JSON: {where}", code="invalid_json")
    if first["loc"] == ("body",):
        return ApiError(400, "the body must be a JSON object, sent with 'Content-Type: application/json'")
    field = first["loc"][1]
    if first["type"] == "extra_forbidden" and len(first["loc"]) == 2:
        hint = HINTS.get(field) or f"unknown field{did_you_mean(str(field), _FIELDS)}"
        return ApiError(400, f"{str(field)[:_QUOTED]}: {hint}", code="unknown_parameter", param=str(field)[:_QUOTED])
    same = [each for each in errors if each["loc"][1] == field]
    words = " or ".join(dict.fromkeys(each["msg"][:1].lower() + each["msg"][1:] for each in same))
    hint = f" ({HINTS[field]})" if field in HINTS else ""
    where = _path(first["loc"][1:])
    return ApiError(400, f"{where}: {words}{hint}", code="invalid_value", param=where)


def _path(location: Sequence[str | int]) -> str:
    """Write a place as `messages[0].role`; what pydantic says of a union's branches is left out."""
    path = str(location[0])
    for part in location[1:]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier() and part.islower() and part not in {"str", "int", "float", "bool", "list", "dict"}:
            path += f".{part}"
    return path


def install(app: FastAPI) -> None:
    """Let an application answer all its errors in this shape."""

    @app.exception_handler(ApiError)
    async def own(_: Request, error: ApiError) -> Response:
        return error_response(error)

    @app.exception_handler(RequestValidationError)
    async def validation(_: Request, error: RequestValidationError) -> Response:
        return error_response(invalid(error.errors()))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        words = {
            400: "the body is not valid JSON: it must be UTF-8, and neither its nesting nor its numbers may be endless",
            404: f"there is no {request.url.path[:_QUOTED]} here",
            405: f"{request.method} is not for {request.url.path[:_QUOTED]}",
        }
        message = words.get(error.status_code, str(error.detail))
        code = "invalid_json" if error.status_code == 400 else None
        return error_response(ApiError(error.status_code, message, code=code, headers=error.headers))
