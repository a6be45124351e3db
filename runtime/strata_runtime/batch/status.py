"""What a batch says of itself and of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

SlotState = Literal["free", "reading", "decoding", "waiting"]
"""`waiting`: it has a request whose prompt is read later, or goes on to be read later."""


@dataclass(frozen=True, slots=True)
class SlotStatus:
    """One slot: the number of its request, and tokens of the prompt and text that are in it, `of` so many to come."""

    state: SlotState
    request: int | None
    tokens: int
    of: int


@dataclass(frozen=True, slots=True)
class Totals:
    """Counts since the batch began. `concurrent_reads`: prompts of which a part was read beside windows."""

    requests: int = 0
    finished: int = 0
    failed: int = 0
    cancelled: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    windows: int = 0
    give_ways: int = 0
    concurrent_reads: int = 0


@dataclass(frozen=True, slots=True)
class RequestUsage:
    """Of one request, so far. `cached_tokens`: of the prompt, that were not read again. `acceptance`: share of drafts
    that were right. Seconds: in the queue, from the slot to the first token, and behind that.
    """

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    queue_s: float
    prompt_s: float
    decode_s: float
    acceptance: float


@dataclass(frozen=True, slots=True)
class Status:
    """A batch at one moment.

    `tokens_per_second`: drawn over the last seconds. `acceptance`: share of drafts that were right. `phases`: seconds
    of windows by name, empty unless `verify.profile` is on. `expert_hits`: entries of windows whose expert had a slot,
    and all; None where experts have no slots.
    """

    slots: tuple[SlotStatus, ...]
    queued: int
    totals: Totals
    tokens_per_second: float
    acceptance: float
    phases: Mapping[str, float]
    expert_hits: tuple[int, int] | None
    uptime_s: float
