"""What can be asked of a generation: the values, their ranges and defaults. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Any

from strata_runtime.errors import UserError

DEFAULT_MAX_TOKENS = 512
MAX_TEMPERATURE = 100.0
MIN_REPETITION_PENALTY = 0.01
MAX_REPETITION_PENALTY = 100.0
MAX_SEED = (1 << 64) - 1
MAX_WINDOW = 8
"""Most tokens of a window: positions that go through the network together, each with the bits that it has alone."""


def _check(name: str, value: object, kind: type | UnionType, holds: Callable[[Any], bool], rule: str) -> None:
    # NaN fails every comparison, so `holds` refuses it too.
    if isinstance(value, bool) or not isinstance(value, kind) or not holds(value):
        shown = repr(value) if len(repr(value)) < 40 else repr(value)[:30] + "..."
        raise UserError(f"{name} must be {rule}, not {shown}")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How tokens are drawn. Raises `UserError` for a value out of its range.

    temperature: 0 takes the most probable token (the lowest id among equals); up to 100.
    top_k: keep the k most probable tokens; 0, and any k of the vocabulary's size or more, keeps all.
    top_p: keep the smallest set of most probable tokens whose probability reaches top_p; above 0, 1 keeps all.
    min_p: drop tokens less probable than min_p times the most probable one; 0 to 1, 0 drops none.
    repetition_penalty: divides positive and multiplies negative logits of every token in the prompt and the text so
    far; 0.01 to 100, 1 changes nothing.
    seed: 0 to 2^64 - 1; None draws one from the operating system.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None

    def __post_init__(self) -> None:
        number = int | float
        _check(
            "temperature",
            self.temperature,
            number,
            lambda v: 0 <= v <= MAX_TEMPERATURE,
            f"a number from 0 to {MAX_TEMPERATURE:g}",
        )
        _check("top_k", self.top_k, int, lambda v: v >= 0, "a whole number of 0 or more (0 keeps all tokens)")
        _check("top_p", self.top_p, number, lambda v: 0 < v <= 1, "a number above 0, at most 1 (1 keeps all tokens)")
        _check("min_p", self.min_p, number, lambda v: 0 <= v <= 1, "a number from 0 to 1 (0 keeps all tokens)")
        _check(
            "repetition_penalty",
            self.repetition_penalty,
            number,
            lambda v: MIN_REPETITION_PENALTY <= v <= MAX_REPETITION_PENALTY,
            f"a number from {MIN_REPETITION_PENALTY:g} to {MAX_REPETITION_PENALTY:g} (1 changes nothing)",
        )
        if self.seed is not None:
            _check("seed", self.seed, int, lambda v: 0 <= v <= MAX_SEED, "a whole number from 0 to 2^64 - 1")
