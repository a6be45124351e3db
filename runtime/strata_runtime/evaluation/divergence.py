"""How far one run's distributions are from another's: KL over the top tokens, and agreement of the best one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.evaluation.record import LogposRecord, differing_sequence

_BOUNDS = (0, 8, 64, 640)


@dataclass(frozen=True, slots=True)
class Bucket:
    """Positions of one range: how many, the mean and largest KL, and the share whose best token is the same."""

    name: str
    positions: int
    mean_kl: float
    largest_kl: float
    top1: float


@dataclass(frozen=True, slots=True)
class Divergence:
    """KL(a || b) by ranges of positions, those that occur, and last over all.

    `guessed`: positions at which b's value of a token was not known.
    """

    buckets: tuple[Bucket, ...]
    guessed: int

    @property
    def overall(self) -> Bucket:
        """All positions."""
        return self.buckets[-1]


def _known(a: LogposRecord, b: LogposRecord) -> tuple[NDArray[np.float32], int]:
    """Return b's log-probabilities of a's top tokens; one that b does not tell is at most its smallest."""
    values = np.repeat(b.top_logprobs[:, -1:], a.top_ids.shape[1], axis=1)
    matches = a.top_ids[:, :, None] == b.top_ids[:, None, :]
    found = matches.any(axis=2)
    row, column = np.nonzero(found)
    values[row, column] = b.top_logprobs[row, matches[row, column].argmax(axis=1)]
    if b.at_logprobs is None:
        return values, int((~found).any(axis=1).sum())
    # One run gave both, so that they are equal where both tell of a token.
    if not np.array_equal(b.at_logprobs[found], values[found]):
        raise UserError("B tells of the top tokens of another record than A: write B with --at A")
    return b.at_logprobs, 0


def kl_per_position(a: LogposRecord, b: LogposRecord) -> NDArray[np.float64]:
    """Return, for each position, the sum over a's top tokens of exp(la) * (la - lb), without renormalisation."""
    la, lb = a.top_logprobs.astype(np.float64), _known(a, b)[0].astype(np.float64)
    total: NDArray[np.float64] = (np.exp(la) * (la - lb)).sum(axis=1)
    return total


def _bucket(name: str, kl: NDArray[np.float64], same: NDArray[np.bool_]) -> Bucket:
    return Bucket(name, len(kl), float(kl.mean()), float(kl.max()), float(same.mean()))


def compare(a: LogposRecord, b: LogposRecord) -> Divergence:
    """Compare two records of the same sequences. Raises `UserError` when they are not."""
    if not (np.array_equal(a.seq, b.seq) and np.array_equal(a.pos, b.pos)):
        raise UserError(f"the two files hold other positions: {a.positions} and {b.positions} rows")
    if (at := differing_sequence(a.sequence_digests, b.sequence_digests)) is not None:
        raise UserError(f"the two files are of other texts: sequence {at} has other tokens")
    if not a.positions:
        raise UserError("the two files hold no positions")
    kl, same = kl_per_position(a, b), a.top_ids[:, 0] == b.top_ids[:, 0]
    buckets = []
    for low, high in zip(_BOUNDS, (*_BOUNDS[1:], None), strict=True):
        inside = (a.pos >= low) & (a.pos < (high if high is not None else np.inf))
        name = f"{low}+" if high is None else f"{low}-{high - 1}"
        if inside.any():
            buckets.append(_bucket(name, kl[inside], same[inside]))
    return Divergence((*buckets, _bucket("all", kl, same)), _known(a, b)[1])
