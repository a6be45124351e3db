"""Scenarios: streams that decode, and prompts that join them."""

from __future__ import annotations

from dataclasses import dataclass

RANDOM = "random"
SCENARIOS = ("cold32k", "followup", "two_joiners", RANDOM)

STREAM_PROMPT = 16
ANSWER = 16
RANDOM_ANSWER = 40
"""Tokens of an answer of a random load, at most."""

COLD = 32768
"""Tokens of a cold prompt, where the context holds them."""

_QUESTION = 24


@dataclass(frozen=True, slots=True)
class Scenario:
    """Streams decode, each `stream_tokens`; `warm_s` later prompts of `joiners` tokens join them, all at once.

    Each joiner answers with `ANSWER` tokens. `question`: tokens of a further prompt, `warm_s` behind them; 0 for none.
    """

    name: str
    streams: int
    joiners: tuple[int, ...]
    question: int
    warm_s: float
    stream_tokens: int


def make_scenario(name: str, *, streams: int, prompt: int, warm_s: float, stream_tokens: int) -> Scenario:
    """Return a scenario by its name. `prompt`: tokens of each cold prompt."""
    joiners = (prompt,) * (2 if name == "two_joiners" else 1)
    return Scenario(name, streams, joiners, _QUESTION if name == "followup" else 0, warm_s, stream_tokens)
