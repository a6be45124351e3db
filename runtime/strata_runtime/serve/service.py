"""What the endpoints share: the engine, its batch, and how requests get in."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from strata_runtime.batch.batch import Batch, QueueFull, Ticket
from strata_runtime.batch.events import Listener
from strata_runtime.engine import Engine
from strata_runtime.errors import UserError
from strata_runtime.serve.errors import ApiError
from strata_runtime.serve.journal import Journal
from strata_runtime.serve.metrics import Metrics
from strata_runtime.serve.options import ServeOptions
from strata_runtime.serve.requests import Asked
from strata_runtime.text.tokenizer import Tokenizer


@dataclass(slots=True)
class Service:
    """A served model. `tokenizer`: the engine's. `is_stopping`: no new requests are let in."""

    engine: Engine
    batch: Batch
    options: ServeOptions
    journal: Journal
    tokenizer: Tokenizer
    metrics: Metrics = field(init=False)
    created: int = field(default_factory=lambda: int(time.time()))
    is_stopping: bool = False

    def __post_init__(self) -> None:
        self.metrics = Metrics(self.batch.status)

    def check_model(self, model: str | None) -> None:
        """Raise `ApiError` for another model than the one that is served."""
        if model is not None and model != self.options.model:
            message = f"the model '{model:.100}' is not served here; '{self.options.model}' is"
            raise ApiError(404, message, code="model_not_found", param="model")

    def admit(self, asked: Asked, listener: Listener) -> Ticket:
        """Hand a request to the batch. Takes as long as its text takes to tokenise: not for the event loop's thread.

        Raises `ApiError`.
        """
        try:
            ids = self.engine.encode(asked.prompt, tools=asked.tools)
            context = self.engine.context
            if len(ids) > context:
                message = f"the prompt has {len(ids)} tokens, more than the context of {context}: shorten it"
                raise ApiError(400, message, code="context_length_exceeded", param=asked.field)
            self._check_open()
            return self.batch.submit(
                ids,
                asked.sampling,
                max_tokens=context if asked.max_tokens is None else asked.max_tokens,
                stop=asked.stop,
                ignore_eos=asked.ignore_eos,
                logprobs=asked.logprobs,
                listener=listener,
            )
        except QueueFull as problem:
            raise ApiError(429, str(problem), code="queue_full", headers={"retry-after": "1"}) from None
        except UserError as problem:
            self._check_open()  # a batch that is being closed refuses everything
            raise ApiError(400, str(problem)) from None

    def _check_open(self) -> None:
        if self.is_stopping:
            raise ApiError(503, "the server is stopping", code="stopping")
