"""The device kernels between the products of a layer in numpy: float32, in the order that the kernels promise."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.device_reference import F, Floats, exp, wave_sum

BLOCK_SUMS = 1024
QUANT_BLOCK = 32
UNIT = 64
CACHE_TYPES = ("f32", "f16", "bf16")


def block_sum(values: Floats) -> Floats:
    """Sums over the last axis: value i goes into partial sum i % 1024; those are added pairwise, neighbours first."""
    parts = np.zeros((*values.shape[:-1], BLOCK_SUMS), F)
    for first in range(0, values.shape[-1], BLOCK_SUMS):
        chunk = values[..., first : first + BLOCK_SUMS]
        parts[..., : chunk.shape[-1]] += chunk
    while parts.shape[-1] > 1:
        parts = parts[..., ::2] + parts[..., 1::2]
    return parts[..., 0]


def rms_norm(x: Floats, weight: Floats, eps: float) -> Floats:
    """Rows over their root mean square, times a weight."""
    factor = F(1) / np.sqrt(block_sum(x * x) / F(x.shape[1]) + F(eps))
    return np.asarray(x * factor[:, None] * weight, F)


def silu_multiply(gate: Floats, up: Floats) -> Floats:
    """silu(gate) * up."""
    with np.errstate(over="ignore"):
        return np.asarray(gate / (F(1) + exp(-gate)) * up, F)


def quantised(x: Floats) -> bytes:
    """Rows [rows, columns] as kernels take them: integers, scales, and scales times sums of the integers."""
    blocks = x.reshape(-1, QUANT_BLOCK)
    largest = np.abs(blocks).max(1)  # NaN wherever there is one
    usable = (largest >= F(2.0**-100)) & np.isfinite(largest)
    step = np.where(usable, largest / F(127), F(1)).astype(F)
    with np.errstate(invalid="ignore"):
        values = np.where(usable[:, None], np.rint(blocks / step[:, None]), 0).astype(np.int8)
    scales = np.where(usable, step, np.where(np.isfinite(largest), 0, np.nan)).astype(F)
    return values.tobytes() + scales.tobytes() + (scales * values.sum(1).astype(F)).tobytes()


def argmax(x: Floats) -> NDArray[np.int32]:
    """Where each row has its largest value; NaN is below all numbers."""
    order = np.where(np.isnan(x), -np.inf, x)
    is_best = (order == order.max(1, keepdims=True)) & (~np.isnan(x) | np.isnan(x).all(1, keepdims=True))
    return is_best.argmax(1).astype(np.int32)


def stored(values: Floats, cache_type: str) -> NDArray[Any]:
    """Floats as a cache stores them; bfloat16 as its bits."""
    if cache_type == "f32":
        return values
    if cache_type == "f16":
        return values.astype(np.float16)
    bits = np.ascontiguousarray(values).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def loaded(cache: NDArray[Any]) -> Floats:
    """What a cache means."""
    if cache.dtype == np.uint16:
        return (cache.astype(np.uint32) << 16).view(F)
    return cache.astype(F)


def turned(heads: Floats, norm: Floats | None, eps: float, scale: float, angles: Floats) -> Floats:
    """Heads [tokens, heads, dim], normed, scaled and rotated by cosines and sines [tokens, 2, rotated / 2]."""
    if norm is None:
        result = heads * F(scale)
    else:
        dim = F(heads.shape[-1])
        factor = F(1) / np.sqrt(wave_sum(heads * heads) / dim + F(eps)) * F(scale)
        result = heads * factor[..., None] * norm
    half = angles.shape[-1]
    cosine, sine = angles[:, None, 0], angles[:, None, 1]
    a, b = result[..., :half].copy(), result[..., half : 2 * half].copy()
    result[..., :half] = a * cosine - b * sine
    result[..., half : 2 * half] = b * cosine + a * sine
    return np.asarray(result, F)
