"""What the listener of a request is told."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from strata_runtime.request import FinishReason


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Natural log-probabilities at the place of one drawn token: its own, and the most probable tokens with theirs."""

    token_id: int
    logprob: float
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class Event:
    """One step of one request: the drawn token, and the text that became certain with it (often empty).

    `token_id` is None when no token was drawn; `finish` is set on the last event, and `logprobs` when they were asked
    for.
    """

    text: str
    token_id: int | None
    logprobs: TokenLogprobs | None
    finish: FinishReason | None


@dataclass(frozen=True, slots=True)
class Failure:
    """The end of this request, and of no other, through no fault of its own: `Batch.submit` refuses what is wrong."""

    message: str


Listener = Callable[[Event | Failure], None]
"""Called on the batch's thread: it must not block. The last call has `finish`, or is a `Failure`."""
