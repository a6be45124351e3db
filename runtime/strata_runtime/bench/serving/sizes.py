"""How large scenarios are, and what a batch for them needs: from the command line, the knobs and the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strata_runtime.bench.serving.scenarios import ANSWER, COLD, RANDOM, RANDOM_ANSWER, SCENARIOS, STREAM_PROMPT
from strata_runtime.errors import UserError
from strata_runtime.knobs import Resolution
from strata_runtime.layers.kv_cache import MOST_DEFAULT_CONTEXT
from strata_runtime.loading import model_path, own_context
from strata_runtime.provider import Provider

LONGEST = 1500
"""Tokens of a prompt of a random load, at most, unless it is said."""

_LEAST = 9  # more than fits a window: what does is read as one, whatever the mode


@dataclass(frozen=True, slots=True)
class Sizes:
    """Numbers of the command line. `prompt`, `stream_tokens`: None when they are not given."""

    prompt: int | None
    streams: int
    stream_tokens: int | None
    warm_s: float
    seconds: float
    compared: int
    seed: int
    rounds: int


@dataclass(frozen=True, slots=True)
class Room:
    """Slots and positions; `where` says what has so many. `given`: knobs with which the model is to be loaded."""

    slots: int
    context: int
    where: str
    given: Mapping[str, Any]


def find_room(model: str, names: Sequence[str], sizes: Sizes, provider: Provider, resolution: Resolution) -> Room:
    """Return what the knobs say, and where they say nothing what the scenarios need, as far as the model has it."""
    slots, context = (int(str(resolution.values[name])) for name in ("batch.slots", "engine.context"))
    given: dict[str, Any] = {}
    where = "engine.context"
    if not resolution.sources["batch.slots"].source.is_set:
        given["batch_slots"] = slots = slots_of(names, sizes.streams)
    if RANDOM in names:
        given |= _queue(most_at_once(slots), resolution)
    if not context:
        own, where = own_context(model_path(model), provider), "the model's context"
        given["engine_context"] = context = min(own, max((sizes.prompt or COLD) + ANSWER, MOST_DEFAULT_CONTEXT))
    return Room(slots, context, where, given)


def most_at_once(slots: int) -> int:
    """Return how many requests of a random load are there at a time: half as many again as have a slot."""
    return slots + max(1, slots // 2)


def _queue(needed: int, resolution: Resolution) -> dict[str, Any]:
    """Return the knob of a queue that refuses none of them, as slots are free a little after their texts have ended."""
    queue = int(str(resolution.values["batch.queue"]))
    if queue >= needed:
        return {}
    if resolution.sources["batch.queue"].source.is_set:
        raise UserError(f"batch.queue is {queue}: a random load has up to {needed} requests at once")
    return {"batch_queue": needed}


def slots_of(names: Sequence[str], streams: int) -> int:
    """Return with how many slots nobody waits for one; a random load has as many as the largest scenario."""
    return streams + (1 if set(names) == {SCENARIOS[0]} else 2)


def check_slots(names: Sequence[str], sizes: Sizes, room: Room) -> None:
    """Raise `UserError` for fewer slots than the scenarios need; a random load takes any number."""
    needed = slots_of([name for name in names if name != RANDOM], sizes.streams)
    if room.slots < needed and set(names) != {RANDOM}:
        raise UserError(
            f"batch.slots is {room.slots}: {sizes.streams} streams and the prompts that join them need {needed}"
        )


def cold_tokens(sizes: Sizes, room: Room) -> tuple[int, str]:
    """Return how long cold prompts are, and a line on why that is less than a scenario's name says.

    Raises `UserError` for what does not fit.
    """
    most = room.context - ANSWER
    if most < max(_LEAST, STREAM_PROMPT):
        raise UserError(f"{room.where} holds {room.context} tokens: too few for a prompt and an answer of {ANSWER}")
    if sizes.prompt is None:
        line = f"{room.where} holds {room.context} tokens: prompts have {most} instead of {COLD}" if most < COLD else ""
        return min(most, COLD), line
    return _checked(sizes.prompt, most, f"with an answer of {ANSWER}, {room.where} of {room.context} holds {most}"), ""


def stream_tokens(sizes: Sizes, room: Room) -> int:
    """Return how many tokens each stream has, 0 for as many as the reads take. Raises `UserError`."""
    most = room.context - STREAM_PROMPT
    if sizes.stream_tokens is not None and sizes.stream_tokens > most:
        raise UserError(
            f"--stream-tokens {sizes.stream_tokens}: behind {STREAM_PROMPT} of a prompt, {room.where} of "
            f"{room.context} holds {most}"
        )
    return sizes.stream_tokens or 0


def longest_tokens(sizes: Sizes, room: Room) -> int:
    """Return how long prompts of a random load are at most. Raises `UserError` for what does not fit."""
    most = room.context - RANDOM_ANSWER
    if most < _LEAST:
        raise UserError(f"{room.where} holds {room.context} tokens: too few for a prompt and {RANDOM_ANSWER} behind it")
    if sizes.prompt is None:
        return min(LONGEST, most)
    return _checked(sizes.prompt, most, f"with {RANDOM_ANSWER} behind it, {room.where} of {room.context} holds {most}")


def _checked(prompt: int, most: int, why: str) -> int:
    if prompt > most:
        raise UserError(f"--prompt-tokens {prompt}: {why}")
    if prompt < _LEAST:
        raise UserError(f"--prompt-tokens {prompt}: so few are read within a window; give at least {_LEAST}")
    return prompt
