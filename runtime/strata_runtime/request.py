"""What is asked of the engine, and what comes back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from strata_runtime.errors import UserError
from strata_runtime.params import DEFAULT_MAX_TOKENS, SamplingParams
from strata_runtime.phases import WindowPhases
from strata_runtime.text.chat import Message

Prompt = str | Sequence[int] | Sequence[Message]
"""Text (all of it literal), token ids, or the messages of a conversation."""

FinishReason = Literal["stop", "length", "cancelled"]
"""`stop`: an end token or a stop string. `length`: max_tokens, or the context is full. `cancelled`: closed before."""


@dataclass(frozen=True, slots=True)
class Request:
    """One generation, checked: `ids` fit the context, `end_ids` end the text as `stops` do.

    Raises `UserError` for a negative `max_tokens` and for a stop string that is empty, no text or not valid Unicode.
    """

    ids: tuple[int, ...]
    sampling: SamplingParams = field(default_factory=SamplingParams)
    max_tokens: int = DEFAULT_MAX_TOKENS
    stops: tuple[str, ...] = ()
    end_ids: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        if isinstance(self.max_tokens, bool) or not isinstance(self.max_tokens, int) or self.max_tokens < 0:
            raise UserError(f"max_tokens must be a whole number of 0 or more, not {self.max_tokens!r:.40}")
        for stop in self.stops:
            if not isinstance(stop, str) or not stop:
                raise UserError(f"a stop string must be text of at least one character, not {stop!r:.40}")
            if any("\ud800" <= character <= "\udfff" for character in stop):
                raise UserError(f"the stop string {stop!r:.40} is not valid Unicode: no text could hold it")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One step of a generation: the drawn token and the text that became certain with it (often empty).

    `token_id` is None when no token was drawn (nothing was to be generated). `finish` is set on the last chunk.
    """

    text: str
    token_id: int | None
    finish: FinishReason | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens read and tokens drawn; an end token counts as drawn."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of engine time; what the caller does between steps does not count.

    `prompt_s` ends with the logits of the first token; `decode_s` holds the passes for all further tokens, and
    `tokens_per_second` is their rate (0 when there was none).
    """

    load_s: float
    prompt_s: float
    decode_s: float
    tokens_per_second: float


@dataclass(frozen=True, slots=True)
class Acceptance:
    """How drafts did: passes after the prompt's, drafts in them, drafts that were right, and tokens drawn per pass.

    `drafter` is the one of `window.draft`.
    """

    drafter: str
    windows: int
    drafted: int
    accepted: int
    tokens_per_window: float


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """All of a generation. `token_ids`: every token drawn, with the end token or those of the stop string.

    `finish_reason` is None while the generation goes on; `phases` unless `verify.profile` is on.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason | None
    usage: Usage
    timing: Timing
    acceptance: Acceptance
    seed: int
    phases: WindowPhases | None = None
