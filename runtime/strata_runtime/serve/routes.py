"""The endpoints of OpenAI's API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from strata_runtime.errors import UserError
from strata_runtime.serve.answers import Answer, EventStream, whole
from strata_runtime.serve.dialects import Chats, Completions, Dialect
from strata_runtime.serve.errors import ApiError
from strata_runtime.serve.replies import ChatCompletion, Completion, ErrorReply, ModelCard, ModelList
from strata_runtime.serve.requests import ChatRequest, CompletionRequest
from strata_runtime.serve.service import Service

_WHY = {
    400: "The request does not hold, or the prompt is longer than the context.",
    401: "The API key is missing or wrong.",
    403: "The server is not called by this name.",
    404: "The model is not served here.",
    408: "The body did not come in time.",
    413: "The body is too large.",
    429: "The queue is full: try again later.",
    500: "The server failed at this request.",
    503: "The server is stopping.",
    504: "The answer took too long.",
}
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorReply, "description": text} for status, text in _WHY.items()
}
REFUSED: dict[int | str, dict[str, Any]] = {status: ERRORS[status] for status in (401, 403)}
_EVENT = {
    "type": "object",
    "description": "A server-sent event: a chunk in JSON, or `[DONE]`.",
    "properties": {"data": {"type": "string"}},
    "required": ["data"],
}
_STREAM: dict[str, Any] = {
    "description": "The answer; with `stream`, server-sent events of chunks, the last one `[DONE]`.",
    "content": {"text/event-stream": {"schema": _EVENT}},
}


def api(service: Service) -> APIRouter:
    """Make the endpoints below `/v1`."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"])
    completions, chats = Completions(service.tokenizer), Chats(service.tokenizer)
    options, context = service.options, service.engine.context
    card = ModelCard(id=options.model, created=service.created, context_length=context)

    @router.get("/models", responses=REFUSED)
    async def models() -> ModelList:
        """List the models: one."""
        return ModelList(data=[card])

    @router.get("/models/{model:path}", responses={**REFUSED, 404: ERRORS[404]})
    async def model(model: str) -> ModelCard:
        """Describe a model."""
        service.check_model(model)
        return card

    @router.post("/completions", response_model=Completion, responses={200: _STREAM, **ERRORS})
    async def completion(body: CompletionRequest, request: Request) -> Response:
        """Go on from a prompt."""
        return await _answer(service, request, body, completions)

    @router.post("/chat/completions", response_model=ChatCompletion, responses={200: _STREAM, **ERRORS})
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Answer a conversation."""
        return await _answer(service, request, body, chats)

    return router


async def _answer(
    service: Service, request: Request, body: CompletionRequest | ChatRequest, dialect: Dialect
) -> Response:
    service.check_model(body.model)
    try:
        asked = body.asked()
    except UserError as problem:
        raise ApiError(400, str(problem), code="invalid_value") from None
    answer = Answer(service, request, asked, dialect)
    await answer.admit()
    if body.stream:
        return EventStream(answer, body.usage)
    return await whole(answer, request.receive)
