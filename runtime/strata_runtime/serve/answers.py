"""From a checked request to its answer, whole or as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import replace
from typing import cast

from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from strata_runtime.batch.events import Event
from strata_runtime.batch.status import RequestUsage
from strata_runtime.serve.dialects import Dialect, Head
from strata_runtime.serve.errors import ApiError, as_json
from strata_runtime.serve.exchange import ClientLeft, Exchange
from strata_runtime.serve.recorder import FACTS, ID, STARTED
from strata_runtime.serve.replies import Finish
from strata_runtime.serve.requests import Asked, UsagePlace
from strata_runtime.serve.service import Service
from strata_runtime.serve.spelling import Alignment, Entry

CLIENT_LEFT = 499
"""Status, for the journal alone, of an answer that nobody waited for."""
_LAST_WORDS_S = 2.0
"""How long a client that was too slow is given for the error that says so."""


class Answer:
    """An admitted request on its way to an answer."""

    def __init__(self, service: Service, request: Request, asked: Asked, dialect: Dialect) -> None:
        """To be made on the event loop's thread; `admit` comes next."""
        options, scope = service.options, request.scope
        self._service, self._scope, self._asked = service, scope, asked
        self.dialect = dialect
        self.head = Head(scope[ID], int(time.time()), options.model, service.engine.session.fingerprint)
        self._limit_s = options.answer_s
        loop = asyncio.get_running_loop()
        self._deadline = loop.time() + options.answer_s if options.answer_s else None
        self._exchange = Exchange(scope[STARTED])
        self._alignment = None if asked.logprobs is None else Alignment(service.tokenizer)

    async def admit(self) -> None:
        """Hand the request to the batch. Raises `ApiError`."""
        self.ticket = await run_in_threadpool(self._service.admit, self._asked, self._exchange.listen)

    @asynccontextmanager
    async def events(self, receive: Receive) -> AsyncGenerator[AsyncGenerator[Event | None]]:
        """Give the events, for as long as the answer may take, and record how it ended.

        Raises `ClientLeft`, and `ApiError` for all else that ends an answer.
        """
        finish = "failed"
        try:
            async with (
                asyncio.timeout_at(self._deadline),
                aclosing(self._exchange.events(self.ticket, receive)) as events,
            ):
                yield events
            finish = self._exchange.finish or "failed"
        except TimeoutError:
            finish = "timeout"
            raise ApiError(504, f"the answer took more than {self._limit_s:g} s", code="timeout") from None
        except ClientLeft:
            finish = "left"
            raise
        except ApiError as error:
            finish = error.code or finish
            raise
        finally:
            self._record(finish)

    def entries(self, event: Event) -> list[Entry] | None:
        """Return the tokens to tell of with an event; None when log-probabilities were not asked for."""
        return None if self._alignment is None else self._alignment.push(event.logprobs, event.text)

    def _record(self, finish: str) -> None:
        usage, exchange, metrics = self.ticket.usage, self._exchange, self._service.metrics
        metrics.request.observe(time.monotonic() - exchange.started)
        if exchange.first_s is not None:
            metrics.first_token.observe(exchange.first_s)
        rate = usage.completion_tokens / usage.decode_s if usage.decode_s > 0 else None
        self._scope[FACTS] |= {
            "ticket": self.ticket.id,
            "prompt_tokens": usage.prompt_tokens,
            "cached_tokens": usage.cached_tokens,
            "tokens": usage.completion_tokens,
            "queue_s": usage.queue_s,
            "first_token_s": exchange.first_s,
            "tokens_per_second": rate,
            "finish": finish,
        }


async def whole(answer: Answer, receive: Receive) -> Response:
    """Wait for all of an answer. Raises `ApiError`."""
    texts: list[str] = []
    entries: list[Entry] | None = None
    finish: str | None = None
    try:
        async with answer.events(receive) as events:
            async for event in events:
                if event is None:
                    continue
                texts.append(event.text)
                if (more := answer.entries(event)) is not None:
                    entries = [*(entries or ()), *more]
                finish = event.finish
    except ClientLeft:
        return Response(status_code=CLIENT_LEFT)
    made = answer.dialect.whole(answer.head, "".join(texts), entries, cast(Finish, finish), answer.ticket.usage)
    return Response(made.model_dump_json(), media_type="application/json")


class EventStream(Response):
    """An answer as it comes: chunks, then `[DONE]`. What goes wrong on the way is the last but one of its events."""

    media_type = "text/event-stream"

    def __init__(self, answer: Answer, usage: UsagePlace) -> None:
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._answer = answer
        self._usage = usage
        self._tokens = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            if opening := self._answer.dialect.opening(self._answer.head):
                await _send(send, _sse(opening))
            async with self._answer.events(receive) as events:
                async for event in events:
                    for data in self._written(event):
                        await _send(send, data)
            last = b""
            if self._usage != "nowhere":
                last = _sse(self._answer.dialect.closing(self._answer.head, self._answer.ticket.usage))
        except ClientLeft:
            return
        except ApiError as error:
            last = b"data: " + as_json(error.body) + b"\n\n"
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORDS_S):
                await _send(send, last + b"data: [DONE]\n\n", more=False)

    def _written(self, event: Event | None) -> Iterator[bytes]:
        if event is None:
            yield b": still at it\n\n"
            return
        self._tokens += event.token_id is not None
        entries = self._answer.entries(event)
        if event.text or entries or event.finish is not None:
            finish = cast(Finish | None, event.finish)
            usage = self._usage_so_far() if self._usage == "everywhere" else None
            yield _sse(self._answer.dialect.chunk(self._answer.head, event.text, entries, finish, usage))

    def _usage_so_far(self) -> RequestUsage:
        # The batch may be further than what was sent.
        return replace(self._answer.ticket.usage, completion_tokens=self._tokens)


def _sse(chunk: BaseModel) -> bytes:
    return b"data: " + chunk.model_dump_json().encode() + b"\n\n"


async def _send(send: Send, data: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": data, "more_body": more})
