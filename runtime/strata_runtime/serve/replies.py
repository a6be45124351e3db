"""What the API answers: OpenAI's objects."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Finish = Literal["stop", "length"]


def _missing(value: object) -> bool:
    return value is None


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class PromptDetails(_Model):
    """`cached_tokens`: those of the prompt that did not have to be read again."""

    cached_tokens: int


class Usage(_Model):
    """Tokens of a request; an end token counts as drawn."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class CompletionLogprobs(_Model):
    """Of each token of a text; `text_offset` is where its characters begin in the answer."""

    tokens: list[str]
    token_logprobs: list[float]
    top_logprobs: list[dict[str, float]]
    text_offset: list[int]


class CompletionChoice(_Model):
    """A text, or a piece of one."""

    text: str
    index: int = 0
    logprobs: CompletionLogprobs | None = None
    finish_reason: Finish | None = None


class Completion(_Model):
    """A completion, or a chunk of its stream."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[CompletionChoice]
    usage: Usage | None = Field(default=None, exclude_if=_missing)


class TopLogprob(_Model):
    """A token that could have been drawn. `bytes`: its UTF-8, which may be part of a character."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TopLogprob):
    """The token that was drawn, with those most probable there."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(_Model):
    """Of each token of a message."""

    content: list[TokenLogprob]


class ChatMessage(_Model):
    """The model's message; calls of tools and reasoning are in it as the model wrote them."""

    role: Literal["assistant"] = "assistant"
    content: str
    refusal: None = None


class ChatChoice(_Model):
    """A message and how it ended."""

    index: int = 0
    message: ChatMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Finish


class ChatCompletion(_Model):
    """An answer of a chat."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage


class Delta(_Model):
    """What a chunk adds to the message."""

    role: Literal["assistant"] | None = Field(default=None, exclude_if=_missing)
    content: str | None = Field(default=None, exclude_if=_missing)


class ChunkChoice(_Model):
    """A piece of a message."""

    index: int = 0
    delta: Delta
    logprobs: ChatLogprobs | None = None
    finish_reason: Finish | None = None


class ChatChunk(_Model):
    """A chunk of a chat's stream."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | None = Field(default=None, exclude_if=_missing)


class ModelCard(_Model):
    """A model that is served. `context_length`: tokens that prompt and answer share."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: str = "strata"
    context_length: int


class ModelList(_Model):
    """The models that are served."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class Problem(_Model):
    """What went wrong."""

    message: str
    type: str
    param: str | None = Field(description="Field of the request that is at fault.")
    code: str | None = Field(description="For programs.")


class ErrorReply(_Model):
    """Every error."""

    error: Problem
