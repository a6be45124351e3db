"""What a request of the API may hold: OpenAI's fields, and those of `SamplingParams` beyond them.

A field that would change the answer and cannot be honoured is refused unless it is at its neutral value; an unknown one
is refused by its name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from strata_runtime.errors import UserError
from strata_runtime.params import (
    MAX_REPETITION_PENALTY,
    MAX_SEED,
    MAX_TEMPERATURE,
    MIN_REPETITION_PENALTY,
    SamplingParams,
)
from strata_runtime.request import Prompt

COMPLETION_TOKENS = 16
"""Most tokens of a completion that names no number: what OpenAI's API takes."""
MOST_LOGPROBS = 20

HINTS: Mapping[str, str] = {
    "n": "one answer a request is served: send several requests",
    "best_of": "one answer a request is served",
    "prompt": "one prompt a request is served, text or token ids: send several requests",
    "echo": "the prompt is not repeated",
    "suffix": "text is only added at the end",
    "frequency_penalty": "not served; repetition_penalty is",
    "presence_penalty": "not served; repetition_penalty is",
    "logit_bias": "not served",
    "response_format": "text alone is served",
    "tool_choice": "the model chooses: 'auto', or 'none' to leave tools out",
    "modalities": "text alone is served",
    "functions": "give tools",
    "function_call": "give tools",
}
"""What helps where a field is refused, by its name."""

UsagePlace = Literal["nowhere", "end", "everywhere"]
_Zero = Annotated[float, Field(ge=0, le=0)]
_Text = Annotated[str, Field(min_length=1)]
_TokenIds = Annotated[list[Annotated[int, Field(ge=0)]], Field(min_length=1, fail_fast=True)]


class _Model(BaseModel):
    """Of what is wrong with it little is told: a body of nothing but faults must not become as many errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _first_unknown(cls, data: object) -> object:
        """Leave out unknown fields but for the first one, which is refused."""
        if not isinstance(data, dict):
            return data
        others = [name for name in data if name not in cls.model_fields][1:]
        return {name: data[name] for name in data.keys() - others} if others else data


class StreamOptions(_Model):
    """`include_usage`: one more chunk at the end, with the tokens of the request; with `continuous_usage_stats` every
    chunk has those so far.
    """

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None
    include_obfuscation: Literal[False] | None = None


class TextFormat(_Model):
    """The one format that is served."""

    type: Literal["text"]


class _Common(_Model):
    model: str | None = Field(None, description="Name of the model. Default: the one that is served.")
    max_tokens: int | None = Field(None, ge=0, description="Most tokens to draw.")
    temperature: float | None = Field(None, ge=0, le=MAX_TEMPERATURE, description="0 takes the most probable token.")
    top_p: float | None = Field(None, gt=0, le=1, description="Draw from the tokens that reach this probability.")
    top_k: int | None = Field(None, ge=0, description="Draw from the k most probable tokens; 0 is all.")
    min_p: float | None = Field(None, ge=0, le=1, description="Least part of the best token's probability.")
    repetition_penalty: float | None = Field(
        None, ge=MIN_REPETITION_PENALTY, le=MAX_REPETITION_PENALTY, description="Above 1, tokens that occurred lose."
    )
    seed: int | None = Field(None, ge=0, le=MAX_SEED, description="Seed of the draws. Default: a new one.")
    stop: _Text | Annotated[list[_Text], Field(max_length=16, fail_fast=True)] | None = Field(
        None, description="End before these."
    )
    ignore_eos: bool | None = Field(None, description="Draw on after the model's own end tokens.")
    stream: bool | None = Field(None, description="Send the text as it comes, as server-sent events.")
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = Field(None, description=HINTS["n"])
    frequency_penalty: _Zero | None = Field(None, description=HINTS["frequency_penalty"])
    presence_penalty: _Zero | None = Field(None, description=HINTS["presence_penalty"])
    logit_bias: Annotated[dict[str, Any], Field(max_length=0)] | None = Field(None, description=HINTS["logit_bias"])
    user: str | None = Field(None, description="Without effect, as are the next ones.")
    metadata: dict[str, Any] | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None

    def sampling(self) -> SamplingParams:
        """Return how tokens are drawn. Raises `UserError` for a value out of its range."""
        names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty", "seed")
        given = {name: getattr(self, name) for name in names}
        return SamplingParams(**{name: value for name, value in given.items() if value is not None})

    def stops(self) -> tuple[str, ...]:
        """Return the stop strings."""
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())

    @property
    def usage(self) -> UsagePlace:
        """Where a stream has the tokens of the request."""
        if self.stream_options is None or not self.stream_options.include_usage:
            return "nowhere"
        return "everywhere" if self.stream_options.continuous_usage_stats else "end"


class CompletionRequest(_Common):
    """Text that goes on from a prompt."""

    prompt: (
        str
        | _TokenIds
        | Annotated[list[str], Field(min_length=1, max_length=1, fail_fast=True)]
        | Annotated[list[_TokenIds], Field(min_length=1, max_length=1, fail_fast=True)]
    ) = Field(description="Text, taken literally, or token ids.")
    logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS, description="Most probable tokens to name at each.")
    best_of: Literal[1] | None = Field(None, description=HINTS["best_of"])
    echo: Literal[False] | None = Field(None, description=HINTS["echo"])
    suffix: Literal[""] | None = Field(None, description=HINTS["suffix"])

    def asked(self) -> Asked:
        """Return what is asked of the batch. Raises `UserError` for values that do not hold."""
        prompt = self.prompt
        if isinstance(prompt, list) and not isinstance(prompt[0], int):
            prompt = prompt[0]
        limit = COMPLETION_TOKENS if self.max_tokens is None else self.max_tokens
        return Asked(prompt, self.sampling(), limit, self.stops(), bool(self.ignore_eos), self.logprobs)


class TextPart(_Model):
    """A part of a message."""

    type: Literal["text"]
    text: str


class Message(BaseModel):
    """A message; what else it has (tool calls, reasoning) is for the model's chat template."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    role: _Text
    content: str | Annotated[list[TextPart], Field(fail_fast=True)] | None = None

    def plain(self) -> dict[str, Any]:
        """Return it as templates read it: parts of text are one text."""
        message = self.model_dump(exclude_unset=True)
        if isinstance(self.content, list):
            message["content"] = "".join(part.text for part in self.content)
        return message


class ChatRequest(_Common):
    """The next message of a conversation."""

    messages: list[Message] = Field(min_length=1, fail_fast=True)
    max_completion_tokens: int | None = Field(None, ge=0, description="The same as max_tokens.")
    logprobs: bool | None = Field(None, description="Name the log-probability of each token.")
    top_logprobs: int | None = Field(None, ge=0, le=MOST_LOGPROBS, description="Most probable tokens to name at each.")
    tools: Annotated[list[dict[str, Any]], Field(fail_fast=True)] | None = Field(
        None, description="For the model's chat template."
    )
    tool_choice: Literal["auto", "none"] | None = Field(None, description=HINTS["tool_choice"])
    parallel_tool_calls: bool | None = Field(None, description="Without effect.")
    response_format: TextFormat | None = Field(None, description=HINTS["response_format"])
    modalities: Annotated[list[Literal["text"]], Field(fail_fast=True)] | None = Field(
        None, description=HINTS["modalities"]
    )

    def asked(self) -> Asked:
        """Return what is asked of the batch. Raises `UserError` for values that do not hold or go together."""
        limits = {each for each in (self.max_tokens, self.max_completion_tokens) if each is not None}
        if len(limits) > 1:
            raise UserError("max_tokens and max_completion_tokens are the same: give one of them")
        if self.top_logprobs is not None and not self.logprobs:
            raise UserError("top_logprobs needs logprobs: true")
        return Asked(
            [message.plain() for message in self.messages],
            self.sampling(),
            next(iter(limits), None),
            self.stops(),
            bool(self.ignore_eos),
            (self.top_logprobs or 0) if self.logprobs else None,
            () if self.tool_choice == "none" else tuple(self.tools or ()),
        )


@dataclass(frozen=True, slots=True)
class Asked:
    """A request, whatever its form. `max_tokens` None: what the context holds. `logprobs`: see `Batch.submit`."""

    prompt: Prompt
    sampling: SamplingParams
    max_tokens: int | None
    stop: tuple[str, ...]
    ignore_eos: bool
    logprobs: int | None
    tools: Sequence[Mapping[str, Any]] = ()

    @property
    def field(self) -> str:
        """The field of the request that holds the prompt."""
        is_chat = not isinstance(self.prompt, str) and any(isinstance(each, Mapping) for each in self.prompt)
        return "messages" if is_chat else "prompt"
