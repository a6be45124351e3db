"""Where a product's error comes from: half a step of the inputs' 8 bits, and float32 sums. Nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from strata_gen.model.specset import SpecSet
from support.activations import ULP, Doubles, quantised, quantising_error, steps_of, summing_error
from support.blocks import block_of, names
from support.kernels import Floats, Kernels, product, silu

NAMES = names()
TOKENS = (*range(1, 9), 11)


def widths(name: str) -> list[int]:
    return {1: [1, 23, 256, 2880], 32: [32, 96, 2880], 256: [256, 768, 2816]}[block_of(name)]


def inputs(tokens: int, columns: int) -> Floats:
    """Rows of very different sizes, whose blocks differ too."""
    random = np.random.default_rng(100 * tokens + columns)
    sizes = np.exp2(random.integers(-8, 8, (tokens, -(-columns // 32)))).astype(np.float32)
    return random.standard_normal((tokens, columns), np.float32) * np.repeat(sizes, 32, 1)[:, :columns]


def test_the_stated_bounds_are_half_a_step(specs: SpecSet) -> None:
    (linear,) = (kernel for kernel in specs.kernels if kernel.name == "linear")
    stated = {str(tolerance.activation): tolerance.bound for tolerance in linear.tolerances}
    half_a_step = 1 / 127 / 2  # of the largest input of a block
    for activation in ("int8", "int8_256"):
        assert half_a_step < stated[activation] < 1.02 * half_a_step


@pytest.mark.parametrize("activation", ["int8", "int8_256"])
def test_a_quantised_input_is_within_half_a_step(activation: str) -> None:
    x = inputs(40, 2816)
    assert (np.abs(quantised(activation, x) - x) <= steps_of(activation, x) * (0.5 + 1e-5)).all()


@pytest.mark.native
@pytest.mark.parametrize("name", NAMES)
def test_products_are_those_of_the_quantised_inputs_up_to_float_sums(kernels: Kernels, name: str) -> None:
    for columns in widths(name):
        weights = kernels.random(name, 37, columns)
        decoded = weights.decoded.astype(np.float64)
        for tokens in TOKENS:
            x = inputs(tokens, columns)
            expected = quantised(weights.format.activation, x) @ decoded.T
            error = np.abs(kernels.linear(weights, x) - expected)
            assert (error <= summing_error(weights, x)).all(), (columns, tokens)


@pytest.mark.native
@pytest.mark.parametrize("name", NAMES)
def test_the_whole_error_is_within_half_a_step_and_the_sums(kernels: Kernels, name: str) -> None:
    for columns in widths(name):
        weights = kernels.random(name, 37, columns)
        for tokens in TOKENS:
            x = inputs(tokens, columns)
            error = np.abs(kernels.linear(weights, x) - product(weights, x))
            allowed = quantising_error(weights, x) + summing_error(weights, x)
            assert (error <= allowed).all(), (columns, tokens)


def nearby(activation: str, values: Doubles, error: Doubles) -> Doubles:
    """One step for each of `values` that an error as large as `error` can move to a neighbouring step, else 0."""
    step = steps_of(activation, values.astype(np.float32))
    places = np.divide(values, step, out=np.zeros_like(step), where=step > 0)
    moved = np.divide(error, step, out=np.zeros_like(step), where=step > 0) + 127 * 8 * ULP
    return np.where(np.abs(places - np.floor(places) - 0.5) <= moved, step, 0)


@pytest.mark.native
@pytest.mark.parametrize("name", NAMES)
def test_experts_quantise_twice_and_lose_nothing_else(kernels: Kernels, name: str) -> None:
    wide = max(block_of(name), 64)
    gate, up, down = (kernels.random(name, wide, wide, seed) for seed in range(3))
    activation, weights = down.format.activation, np.abs(down.decoded.astype(np.float64))
    for tokens in TOKENS:
        x = inputs(tokens, wide)
        x /= np.abs(x).max(1, keepdims=True)
        given = quantised(activation, x)
        gates, ups = (given @ part.decoded.astype(np.float64).T for part in (gate, up))
        middle = silu(gates) * ups
        # What comes before the second rounding: the slope of silu is below 1.1.
        error = 1.1 * summing_error(gate, x) * np.abs(ups) + np.abs(silu(gates)) * summing_error(up, x)
        error += 8 * ULP * np.abs(middle)
        rounded = quantised(activation, middle.astype(np.float32))
        rows = kernels.experts([(gate, up, down)], x, np.zeros((tokens, 1), np.int32))
        allowed = (error + nearby(activation, middle, error)) @ weights.T
        allowed += summing_error(down, middle.astype(np.float32))
        assert (np.abs(rows - rounded @ down.decoded.astype(np.float64).T) <= allowed).all(), tokens
