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

_FIRST_CANDIDATES = 256
_CANDIDATE_GROWTH = 8

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


def _most_probable(values: Weights, count: int) -> Ids:
    """Return ids of at least `count` largest values, largest first, equal ones by id; ties are never split."""
    if count < len(values):
        smallest = np.partition(values, len(values) - count)[len(values) - count]
        candidates = np.flatnonzero(values >= smallest)
    else:
        candidates = np.arange(len(values))
    return candidates[np.argsort(-values[candidates], kind="stable")]


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


def _mass(weights: Weights, leading: Weights, limit: int) -> float:
    """Return the weight that top-p is a share of: of the top-k tokens, or of the whole vocabulary."""
    return float(weights.sum() if limit == len(weights) else leading[:limit].sum())


def _draw(values: Weights, params: SamplingParams, uniform: float) -> int:
    """Invert the cumulative distribution, sorting no more of the vocabulary than the draw needs."""
    weights = _weights(values, params.temperature)
    limit = _limit(params, len(values))
    filtered = params.top_p < 1 or params.min_p > 0
    size = _FIRST_CANDIDATES if limit == len(values) else limit
    while True:
        ids = _most_probable(values, size)[:limit]
        leading = weights[ids]
        cumulative = np.cumsum(leading)
        mass = _mass(weights, leading, limit)
        count = _kept(leading, cumulative, mass, params)
        complete = count < len(ids) or len(ids) == limit
        target = uniform * (float(cumulative[count - 1]) if filtered else mass)
        if complete or (not filtered and cumulative[-1] > target):
            break
        size *= _CANDIDATE_GROWTH
    cumulative = cumulative[:count]
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

    def distribution(self, logits: Row) -> Distribution:
        """Return the whole final distribution over logits, float32 [vocab]; draws follow it."""
        values = _penalised(logits, self._seen, self.params.repetition_penalty)
        if self.params.temperature == 0:
            return Distribution(np.array([values.argmax()]), np.ones(1))
        limit = _limit(self.params, len(values))
        ids = _most_probable(values, limit)[:limit]
        weights = _weights(values, self.params.temperature)
        leading = weights[ids]
        count = _kept(leading, np.cumsum(leading), _mass(weights, leading, limit), self.params)
        return Distribution(ids[:count], leading[:count] / leading[:count].sum())


def log_softmax(logits: Row) -> NDArray[np.float32]:
    """Return log-probabilities of raw logits along the last axis, float32, computed in float64."""
    values = logits.astype(np.float64)
    values -= values.max(axis=-1, keepdims=True)
    values -= np.log(np.exp(values).sum(axis=-1, keepdims=True))
    return values.astype(np.float32)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """Log-probability of a drawn token under the raw logits, and of the most probable tokens, best first."""

    token: int
    logprob: float
    top: tuple[tuple[int, float], ...]


def token_logprobs(logits: Row, token: int, top: int) -> TokenLogprobs:
    """Score `token` and the `top` most probable tokens of one row of logits, float32 [vocab]."""
    row = log_softmax(logits)
    ids = _most_probable(row.astype(np.float64), max(top, 1))[:top]
    return TokenLogprobs(token, float(row[token]), tuple((int(i), float(row[i])) for i in ids))
