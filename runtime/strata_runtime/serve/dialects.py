"""The two forms of an answer: a completion and a chat message, whole or in chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from strata_runtime.batch.status import RequestUsage
from strata_runtime.serve import replies
from strata_runtime.serve.replies import Finish
from strata_runtime.serve.spelling import Entry, spelled
from strata_runtime.text.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Head:
    """What all chunks of an answer share. `created`: seconds since 1970."""

    id: str
    created: int
    model: str
    fingerprint: str


class Dialect(Protocol):
    """Writes answers in one form. `entries` are None where no log-probabilities were asked for."""

    def whole(
        self, head: Head, text: str, entries: Sequence[Entry] | None, finish: Finish, usage: RequestUsage
    ) -> BaseModel:
        """Make a whole answer."""

    def opening(self, head: Head) -> BaseModel | None:
        """Make the chunk before any text, where there is one."""

    def chunk(
        self,
        head: Head,
        text: str,
        entries: Sequence[Entry] | None,
        finish: Finish | None,
        usage: RequestUsage | None,
    ) -> BaseModel:
        """Make the chunk of a piece of text; `usage` so far, where it is wanted in every chunk."""

    def closing(self, head: Head, usage: RequestUsage) -> BaseModel:
        """Make the last chunk, which holds the usage alone."""


@dataclass(frozen=True, slots=True)
class Completions:
    """Answers of `/v1/completions`."""

    tokenizer: Tokenizer

    def whole(
        self, head: Head, text: str, entries: Sequence[Entry] | None, finish: Finish, usage: RequestUsage
    ) -> replies.Completion:
        """Make a whole answer."""
        return self._of(head, [self._choice(text, entries, finish)], usage)

    def opening(self, head: Head) -> None:
        """Completions begin with text."""

    def chunk(
        self,
        head: Head,
        text: str,
        entries: Sequence[Entry] | None,
        finish: Finish | None,
        usage: RequestUsage | None,
    ) -> replies.Completion:
        """Make the chunk of a piece of text."""
        return self._of(head, [self._choice(text, entries, finish)], usage)

    def closing(self, head: Head, usage: RequestUsage) -> replies.Completion:
        """Make the last chunk."""
        return self._of(head, [], usage)

    def _of(
        self, head: Head, choices: list[replies.CompletionChoice], usage: RequestUsage | None
    ) -> replies.Completion:
        return replies.Completion(**_shared("cmpl", head, usage), choices=choices)

    def _choice(self, text: str, entries: Sequence[Entry] | None, finish: Finish | None) -> replies.CompletionChoice:
        logprobs = None if entries is None else self._logprobs(entries)
        return replies.CompletionChoice(text=text, logprobs=logprobs, finish_reason=finish)

    def _logprobs(self, entries: Sequence[Entry]) -> replies.CompletionLogprobs:
        return replies.CompletionLogprobs(
            tokens=[self._text(entry.logprobs.token_id) for entry in entries],
            token_logprobs=[entry.logprobs.logprob for entry in entries],
            top_logprobs=[self._top(entry) for entry in entries],
            text_offset=[entry.offset for entry in entries],
        )

    def _top(self, entry: Entry) -> dict[str, float]:
        found: dict[str, float] = {}
        for token, logprob in entry.logprobs.top:
            found.setdefault(self._text(token), logprob)  # of tokens that read alike, the most probable one
        return found

    def _text(self, token: int) -> str:
        return spelled(self.tokenizer, token)[0]


@dataclass(frozen=True, slots=True)
class Chats:
    """Answers of `/v1/chat/completions`."""

    tokenizer: Tokenizer

    def whole(
        self, head: Head, text: str, entries: Sequence[Entry] | None, finish: Finish, usage: RequestUsage
    ) -> replies.ChatCompletion:
        """Make a whole answer."""
        message = replies.ChatMessage(content=text)
        choice = replies.ChatChoice(message=message, logprobs=self._logprobs(entries), finish_reason=finish)
        return replies.ChatCompletion(**_shared("chatcmpl", head, usage), choices=[choice])

    def opening(self, head: Head) -> replies.ChatChunk:
        """Make the chunk that says who speaks."""
        return self._of(head, [replies.ChunkChoice(delta=replies.Delta(role="assistant", content=""))], None)

    def chunk(
        self,
        head: Head,
        text: str,
        entries: Sequence[Entry] | None,
        finish: Finish | None,
        usage: RequestUsage | None,
    ) -> replies.ChatChunk:
        """Make the chunk of a piece of text."""
        delta = replies.Delta(content=text) if text or entries else replies.Delta()
        choice = replies.ChunkChoice(delta=delta, logprobs=self._logprobs(entries), finish_reason=finish)
        return self._of(head, [choice], usage)

    def closing(self, head: Head, usage: RequestUsage) -> replies.ChatChunk:
        """Make the last chunk."""
        return self._of(head, [], usage)

    def _of(self, head: Head, choices: list[replies.ChunkChoice], usage: RequestUsage | None) -> replies.ChatChunk:
        return replies.ChatChunk(**_shared("chatcmpl", head, usage), choices=choices)

    def _logprobs(self, entries: Sequence[Entry] | None) -> replies.ChatLogprobs | None:
        return None if entries is None else replies.ChatLogprobs(content=list(self._tokens(entries)))

    def _tokens(self, entries: Iterable[Entry]) -> Iterable[replies.TokenLogprob]:
        for entry in entries:
            text, data = spelled(self.tokenizer, entry.logprobs.token_id)
            top = [self._top(token, logprob) for token, logprob in entry.logprobs.top]
            yield replies.TokenLogprob(token=text, logprob=entry.logprobs.logprob, bytes=list(data), top_logprobs=top)

    def _top(self, token: int, logprob: float) -> replies.TopLogprob:
        text, data = spelled(self.tokenizer, token)
        return replies.TopLogprob(token=text, logprob=logprob, bytes=list(data))


def _shared(kind: str, head: Head, usage: RequestUsage | None) -> dict[str, Any]:
    """Return the fields that answers and chunks of every form have."""
    return {
        "id": f"{kind}-{head.id}",
        "created": head.created,
        "model": head.model,
        "system_fingerprint": head.fingerprint,
        "usage": None if usage is None else _usage(usage),
    }


def _usage(usage: RequestUsage) -> replies.Usage:
    return replies.Usage(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.prompt_tokens + usage.completion_tokens,
        prompt_tokens_details=replies.PromptDetails(cached_tokens=usage.cached_tokens),
    )
