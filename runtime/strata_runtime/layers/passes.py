"""How passes are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch

from strata_runtime.layers.compute import Compute
from strata_runtime.layers.executor import Executor
from strata_runtime.layers.kv_cache import KVCache
from strata_runtime.layers.outcome import Outcome
from strata_runtime.layers.reach import Reach

Logits = Literal["last", "all"]


Parts = tuple[tuple[int, KVCache], ...]
"""How many tokens of a pass go behind what is in which cache, in the order of their rows."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One or more tokens on their way through a network: of one text, or in a window of several.

    `states`: takes what the output layer works on, float32 [tokens, hidden_size] on the device. `is_window`: passes of
    as many tokens do the same operations on the same memory, whatever the tokens. `before_layer`: told of every layer,
    by number.
    """

    ids: Sequence[int]
    parts: Parts
    executor: Executor
    logits: Logits
    states: torch.Tensor | None
    is_window: bool
    before_layer: Callable[[int], None] = lambda _: None


class Body(Protocol):
    """The operations of a pass: from token ids on the device to logits there."""

    def __call__(self, ids: torch.Tensor, reach: Reach, work: Pass) -> torch.Tensor: ...  # noqa: D102


class Runner(Protocol):
    """Runs the operations of passes."""

    def run(self, body: Body, work: Pass) -> Outcome:
        """Return what has been computed."""
        ...


class Eager:
    """Does one operation after the other."""

    def __init__(self, compute: Compute) -> None:
        self._compute = compute

    def run(self, body: Body, work: Pass) -> Outcome:
        """See `Runner`."""
        compute, tokens = self._compute, len(work.ids)
        with work.executor.passing(tokens):
            logits = body(compute.token_ids(work.ids), compute.reach(work.parts), work)
            compute.settle()
            # One sum is a fifth of the time of looking at every value; it is not finite when a value is not.
            return Outcome(float(logits.sum()), logits.cpu)
