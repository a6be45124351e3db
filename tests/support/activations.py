"""What kernels make of their inputs, written by hand, and what is left of a product's error after that."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from support.kernels import Floats, Stored

ULP = 2.0**-24
"""Largest relative error of one float32 operation."""

_SPAN = 127
_WIDE = {"float": 1, "int8": 32, "int8_256": 256}
Doubles = NDArray[np.float64]


def steps_of(activation: str, x: Floats) -> Doubles:
    """The distance of two neighbouring quantised values for each of `x` [tokens, columns]; 0 where nothing is rounded.

    The largest magnitude of a block is 127 steps.
    """
    if activation == "float":
        return np.zeros(x.shape)
    blocks = np.abs(x).reshape(len(x), -1, _WIDE[activation])
    step = blocks.max(2, keepdims=True) / np.float32(_SPAN)
    return np.broadcast_to(step, blocks.shape).reshape(x.shape).astype(np.float64)


def quantised(activation: str, x: Floats) -> Doubles:
    """The inputs [tokens, columns] that a kernel multiplies: nearest whole numbers of float32 steps, ties to even."""
    if activation == "float":
        return x.astype(np.float64)
    step = steps_of(activation, x).astype(np.float32)
    whole = np.rint(np.divide(x, step, out=np.zeros_like(x), where=step > 0))
    return whole.astype(np.float64) * step


def quantising_error(weights: Stored, x: Floats) -> Doubles:
    """The most that rounding the inputs can move each product [tokens, rows]: sum of |weight| times half a step."""
    half = steps_of(weights.format.activation, x) / 2
    return np.asarray(half @ np.abs(weights.decoded.astype(np.float64)).T)


def summing_error(weights: Stored, x: Floats) -> Doubles:
    """The most that float32 sums can move each product [tokens, rows] of inputs that are already quantised.

    One operation for each block that goes into a sum, and a dozen for the factors of a block, its minimum and the sum
    over a vector, each off by `ULP` of all that was added up. A block's terms may cancel (a minimum against integers),
    so it counts with its largest weight everywhere.
    """
    wide = max(weights.format.block_elements, _WIDE[weights.format.activation])
    blocks = np.abs(weights.decoded.astype(np.float64)).reshape(weights.rows, -1, wide)
    largest = np.broadcast_to(blocks.max(2, keepdims=True), blocks.shape).reshape(weights.rows, -1)
    operations = weights.columns / wide + 12
    return np.asarray(operations * ULP * (np.abs(quantised(weights.format.activation, x)) @ largest.T))
