"""Draws: from one row of logits to one token.

The final distribution is made in this order: repetition penalty on the raw logits, temperature, top-k, top-p, min-p.
What is left is renormalised. A draw is the inverse of its cumulative distribution, most probable token first and equal
ones by id, at a uniform number that depends on nothing but (seed, position): so the text of a seed does not depend on
how positions were grouped into passes.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.params import SamplingParams

_LEVELS = (2.0**-4, 2.0**-8, 2.0**-14)
"""Parts of the best token's weight: tokens below one are not sorted when those above it suffice."""

_ROUNDING = 1e-9
"""More than two ways of summing the same weights can differ by, as a part of the sum."""

Row = NDArray[np.float32]
Ids = NDArray[np.int64]
Weights = NDArray[np.float64]


class CounterUniform:
    """Uniform numbers in [0, 1) by counter: `at(position)` is a function of (seed, position) alone."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.Philox(key=seed)
        self._state = self._bits.state
        self._counter = self._state["state"]["counter"]

    def at(self, position: int) -> float:
        """Return the number of one position: the first of Philox(key=seed, counter=position), 53 bits."""
        self._counter[0] = position
        self._bits.state = self._state
        return float(int(self._bits.random_raw()) >> 11) * 2.0**-53


def _penalised(logits: Row, seen: NDArray[np.bool_], penalty: float) -> Weights:
    values = logits.astype(np.float64)
    if penalty != 1.0:
        repeated = values[seen]
        values[seen] = np.where(repeated > 0, repeated / penalty, repeated * penalty)
    return values


def _ranked(values: NDArray[np.floating], ids: Ids) -> Ids:
    """Return ids by their value, largest first, equal ones by id (`ids` are ascending)."""
    return ids[np.argsort(-values[ids], kind="stable")]


def _kept(weights: Weights, cumulative: Weights, mass: float, params: SamplingParams) -> int:
    """Return how many of the leading `weights` (descending, the first is 1) pass top-p and min-p."""
    count = len(weights)
    if params.top_p < 1:
        count = min(count, int(np.searchsorted(cumulative, params.top_p * mass, side="left")) + 1)
    if params.min_p > 0:
        count = min(count, int(np.count_nonzero(weights >= params.min_p)))
    return count


@dataclass(frozen=True, slots=True)
class Distribution:
    """Tokens that can be drawn, most probable first, with their probabilities, which sum to 1."""

    ids: Ids
    probabilities: Weights


def _weights(values: Weights, temperature: float) -> Weights:
    with np.errstate(over="ignore"):  # a tiny temperature: -inf is the right limit, its weight is 0
        scaled: Weights = np.exp((values - values.max()) / temperature)
    return scaled


def _limit(params: SamplingParams, size: int) -> int:
    return params.top_k if 0 < params.top_k < size else size


def _is_filtered(params: SamplingParams, size: int) -> bool:
    return _limit(params, size) < size or params.top_p < 1 or params.min_p > 0


def _candidates(weights: Weights, whole: float, params: SamplingParams, uniform: float) -> Ids:
    """Return ids, ascending, among which the draw falls: few, so that sorting them is cheap. Ties are never split."""
    size, limit = len(weights), _limit(params, len(weights))
    if limit < size:
        return np.flatnonzero(weights >= np.partition(weights, size - limit)[size - limit])
    reached = params.top_p if params.top_p < 1 else uniform
    for level in _LEVELS:
        ids = np.flatnonzero(weights >= level)
        if level <= params.min_p:
            return ids
        if params.min_p == 0 and weights[ids].sum() > (reached + _ROUNDING) * whole:
            return ids
    return np.arange(size)


def _draw(values: Weights, params: SamplingParams, uniform: float) -> int:
    """Invert the cumulative distribution, sorting no more of the vocabulary than the draw can reach."""
    weights = _weights(values, params.temperature)
    size, whole = len(values), float(weights.sum())
    limit = _limit(params, size)
    ids = _ranked(values, _candidates(weights, whole, params, uniform))[:limit]
    leading = weights[ids]
    cumulative = np.cumsum(leading)
    cumulative = cumulative[: _kept(leading, cumulative, whole if limit == size else float(cumulative[-1]), params)]
    target = uniform * (float(cumulative[-1]) if _is_filtered(params, size) else whole)
    # Rounding may leave the target at the very end: the last token that has any weight takes it.
    last = int(np.searchsorted(cumulative, cumulative[-1], side="left"))
    return int(ids[min(int(np.searchsorted(cumulative, target, side="right")), last)])


class Sampler:
    """Draws the tokens of one sequence. Holds the seed and the tokens seen so far (for the penalty)."""

    def __init__(self, params: SamplingParams, vocab_size: int, seen: Iterable[int] = ()) -> None:
        self.params = params
        self.seed = int.from_bytes(os.urandom(4), "little") if params.seed is None else params.seed
        self._uniform = CounterUniform(self.seed)
        self._penalises = params.repetition_penalty != 1.0
        self._seen = np.zeros(vocab_size if self._penalises else 0, dtype=np.bool_)
        if self._penalises:
            self._seen[np.fromiter(seen, dtype=np.int64)] = True

    @property
    def takes_best(self) -> bool:
        """Whether each draw is the most probable token of the raw logits, the lowest id among equals."""
        return self.params.temperature == 0 and not self._penalises

    def accept(self, token: int) -> None:
        """Count a token as part of the text; later draws penalise it."""
        if self._penalises:
            self._seen[token] = True

    def draw(self, logits: Row, position: int) -> int:
        """Draw the token at `position` of the sequence from its logits, float32 [vocab].

        Raises `UserError` when a logit is not finite: whatever would be drawn from it is noise.
        """
        best = int(logits.argmax())
        # argmax finds NaN and +inf, min finds -inf: together they look at everything, and cost less than isfinite.
        if not (math.isfinite(logits[best]) and math.isfinite(logits.min())):
            raise UserError(
                f"the model's output at position {position} is not finite (NaN or infinite logits): "
                "the weights are damaged, or too large for this format; check the checkpoint's files"
            )
        if self._penalises:
            values = _penalised(logits, self._seen, self.params.repetition_penalty)
            best = int(values.argmax())
        elif self.params.temperature > 0:
            values = logits.astype(np.float64)
        if self.params.temperature == 0:
            return best
        return _draw(values, self.params, self._uniform.at(position))

    def best(self, logits: Row) -> int:
        """Return the most probable token of logits, float32 [vocab], finite; the lowest id among equals."""
        if not self._penalises:
            return int(logits.argmax())
        return int(_penalised(logits, self._seen, self.params.repetition_penalty).argmax())

    def distribution(self, logits: Row) -> Distribution:
        """Return the whole final distribution over logits, float32 [vocab]; draws follow it."""
        values = _penalised(logits, self._seen, self.params.repetition_penalty)
        if self.params.temperature == 0:
            return Distribution(np.array([values.argmax()]), np.ones(1))
        size = len(values)
        ids = _ranked(values, np.arange(size))[: _limit(self.params, size)]
        weights = _weights(values, self.params.temperature)
        leading = weights[ids]
        cumulative = np.cumsum(leading)
        count = _kept(leading, cumulative, float(weights.sum() if len(ids) == size else cumulative[-1]), self.params)
        return Distribution(ids[:count], leading[:count] / leading[:count].sum())


def log_softmax(logits: Row) -> NDArray[np.float32]:
    """Return log-probabilities of raw logits along the last axis, float32, computed in float64."""
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    values -= np.log(np.exp(values).sum(axis=-1, keepdims=True))
    return values.astype(np.float32)
