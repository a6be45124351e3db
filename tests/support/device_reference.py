"""Device kernels in numpy: plain loops in float32, in the order that the kernels promise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ids = NDArray[np.int32]
F = np.float32
PARTIAL_SUMS = 64


def exp(x: Floats) -> Floats:
    """The exponential of the kernels: argument clamped, reduced by ln 2 in two parts, polynomial of degree six."""
    x = np.clip(x.astype(F), F(-87), F(88))
    magic = F(1.5 * 2**23)
    shifted = x * F(float.fromhex("0x1.715476p+0")) + magic
    whole = shifted - magic
    rest = (x - whole * F(float.fromhex("0x1.62ep-1"))) - whole * F(float.fromhex("0x1.0bfbe8p-15"))
    p = np.full_like(x, F(float.fromhex("0x1.6d7b96p-10")))
    for coefficient in ("0x1.1204eap-7", "0x1.5554a0p-5", "0x1.5554cap-3"):
        p = p * rest + F(float.fromhex(coefficient))
    p = p * rest + F(0.5)
    p = p * rest * rest + rest + F(1)
    power = (shifted.view(np.uint32) - np.uint32(0x4B400000) + np.uint32(127)) << np.uint32(23)
    return np.asarray(p * power.view(F), F)


def wave_sum(values: Floats) -> np.float32:
    """Value i goes into partial sum i % 64; the partial sums are added pairwise, halves upon halves."""
    parts = np.zeros(PARTIAL_SUMS, F)
    for first in range(0, len(values), PARTIAL_SUMS):
        chunk = values[first : first + PARTIAL_SUMS]
        parts[: len(chunk)] += chunk
    while len(parts) > 1:
        half = len(parts) // 2
        parts = parts[:half] + parts[half:]
    return F(parts[0])


def scores(logits: Floats, *, sigmoid: bool) -> Floats:
    """Scores of one token's experts."""
    largest = np.finfo(F).max
    finite = np.clip(np.where(np.isnan(logits), -largest, logits), -largest, largest).astype(F)
    if sigmoid:
        return np.asarray(F(1) / (F(1) + exp(-finite)), F)
    with np.errstate(over="ignore"):
        powers = exp(finite - finite.max())
    return np.asarray(powers / wave_sum(powers), F)


def router_topk(
    logits: Floats, bias: Floats | None, top_k: int, *, sigmoid: bool, normalised: bool, scale: float
) -> tuple[Ids, Floats]:
    """Ids and weights [tokens, top_k]."""
    ids = np.zeros((len(logits), top_k), np.int32)
    weights = np.zeros((len(logits), top_k), F)
    for token, row in enumerate(logits):
        score = scores(row, sigmoid=sigmoid)
        ranked = score if bias is None else score + bias
        ids[token] = np.argsort(-ranked, kind="stable")[:top_k]
        chosen = score[ids[token]]
        total = F(0)
        for value in chosen:
            total = F(total + value)
        weights[token] = chosen / (total + F(1e-20) if normalised else F(1)) * F(scale)
    return ids, weights


def ecap_redirect(ids: Ids, weights: Floats, cap: int) -> tuple[Ids, Floats]:
    """The contract of the cap, entry by entry."""
    tokens, top_k = ids.shape
    new_ids, new_weights = ids.copy().reshape(-1), weights.copy().reshape(-1)
    if tokens <= 1 or cap >= ids.size:
        return ids.copy(), weights.copy()
    tail = [entry for entry in range(top_k, ids.size) if new_ids[entry] >= 0]
    ranked = sorted(tail, key=lambda entry: (-np.nan_to_num(new_weights[entry], nan=-np.inf), entry))
    kept = {*range(top_k), *ranked[: max(cap - top_k, 0)]}
    experts = list(dict.fromkeys(int(new_ids[entry]) for entry in sorted(kept) if new_ids[entry] >= 0))
    for turn, entry in enumerate(entry for entry in tail if entry not in kept):
        new_ids[entry] = experts[turn % len(experts)] if experts else -1
        new_weights[entry] = 0
    return new_ids.reshape(ids.shape), new_weights.reshape(ids.shape)


def bits(values: NDArray[Any]) -> NDArray[Any]:
    """Floats as their bits, so that equal means the same bits, NaN included."""
    return values.view(np.uint32) if values.dtype == F else values
