"""Every argument is checked at the boundary: a wrong one is a ValueError with its numbers, never a crash."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata_runtime.provider import Provider
from support.kernels import Kernels, address

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def kernels(provider: Provider) -> Kernels:
    return Kernels(provider, knobs={"pool.threads": "2"})


BLOCKS = np.zeros(4096, np.uint8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("q9_0", 4, 32, 136), "unknown format 'q9_0': this package has bf16, f16, f32, iq3_s"),
        (("q8_0", 4, 100, 136), "a row of 100 values cannot be stored as q8_0: its blocks hold 32 values each"),
        (("q8_0", 4, 32, 135), "a matrix of 4 x 32 in q8_0 takes 136 bytes, not 135"),
        (("q8_0", 4, 32, 170), "a matrix of 4 x 32 in q8_0 takes 136 bytes, not 170"),
        (("f32", 4, 32, 0), "a matrix of 4 x 32 in f32 takes 512 bytes, not 0"),
        (("f32", 0, 32, 0), "a matrix of 0 x 32 is empty"),
        (("f32", 4, 0, 0), "a matrix of 4 x 0 is empty"),
        (("f32", -1, 32, 0), "rows is -1: must be from 0 to 2147483648"),
        (("f32", 4, 2**40, 0), "columns is 1099511627776: must be from 0 to 2147483648"),
        (("f32", 2**31, 2**31, 0), "a matrix of 2147483648 x 2147483648 does not fit into memory"),
    ],
)
def test_wrong_matrices(kernels: Kernels, arguments: tuple[Any, ...], message: str) -> None:
    name, rows, columns, size = arguments
    with pytest.raises(ValueError, match=message):
        kernels.native.make_matrix(name, rows, columns, address(BLOCKS), size, BLOCKS)


def test_null_weights(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="weights: null address"):
        kernels.native.make_matrix("f32", 4, 32, 0, 512, None)


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ((0, 0, 0), "experts need as many gate as up and down matrices, at least one: given 0, 0 and 0"),
        ((2, 1, 2), "given 2, 1 and 2"),
        ((1, 1, 3), "given 1, 1 and 3"),
    ],
)
def test_uneven_experts(kernels: Kernels, counts: tuple[int, int, int], message: str) -> None:
    parts = [("q8_0", [address(BLOCKS)] * count, [], None) for count in counts]
    with pytest.raises(ValueError, match=message):
        kernels.native.make_experts(32, 32, *parts, BLOCKS)


@pytest.mark.parametrize(("hidden", "width"), [(32, 48), (48, 32), (2880, 720)])
def test_expert_sizes_that_blocks_do_not_divide(kernels: Kernels, hidden: int, width: int) -> None:
    with pytest.raises(ValueError, match="cannot be stored as q8_0: its blocks hold 32 values each"):
        kernels.native.make_experts(hidden, width, *([("q8_0", [address(BLOCKS)], [], None)] * 3), BLOCKS)


def test_a_null_expert(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="weights: null address"):
        good, null = ("q8_0", [address(BLOCKS)], [], None), ("q8_0", [0], [], None)
        kernels.native.make_experts(32, 32, good, null, good, BLOCKS)


def test_scales_for_some_experts_only(kernels: Kernels) -> None:
    good, uneven = ("q8_0", [address(BLOCKS)], [], None), ("q8_0", [address(BLOCKS)], [1.0, 2.0], None)
    with pytest.raises(ValueError, match="experts: 2 scales for 1 matrices"):
        kernels.native.make_experts(32, 32, good, good, uneven, BLOCKS)


def test_null_and_misaligned_vectors(kernels: Kernels) -> None:
    matrix = kernels.native.make_matrix("f32", 4, 32, address(BLOCKS), 512, BLOCKS)
    x = np.zeros(64, np.float32)
    out = np.zeros(64, np.float32)
    with pytest.raises(ValueError, match="linear: null address of inputs or outputs"):
        kernels.native.linear(kernels.pool, matrix, 1, 0, address(out))
    with pytest.raises(ValueError, match="linear: null address of inputs or outputs"):
        kernels.native.linear(kernels.pool, matrix, 1, address(x), 0)
    with pytest.raises(ValueError, match="is not aligned to 4 bytes"):
        kernels.native.linear(kernels.pool, matrix, 1, address(x) + 2, address(out))
    with pytest.raises(ValueError, match="tokens is -1"):
        kernels.native.linear(kernels.pool, matrix, -1, address(x), address(out))
    with pytest.raises(ValueError, match="combine: null address"):
        kernels.native.combine(1, 1, 4, 0, address(x), address(out))


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [("pool.threads", "-1", "pool.threads"), ("pool.thread", "1", "pool.thread"), ("pool.spin", "5", "pool.spin")],
)
def test_wrong_knobs(kernels: Kernels, name: str, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kernels.native.make_pool([(name, text)])


def test_an_instruction_set_that_is_not_in_the_package(kernels: Kernels) -> None:
    with pytest.raises(ValueError, match="no kernels for 'sse9': this package has generic, avx2, avx512, avx512vnni"):
        kernels.native.make_pool([], isa="sse9")


def test_weights_keep_their_owner_alive(kernels: Kernels) -> None:
    class Owner:
        gone = False

        def __del__(self) -> None:
            Owner.gone = True

    matrix = kernels.native.make_matrix("f32", 4, 32, address(BLOCKS), 512, Owner())
    assert (matrix.rows, matrix.columns) == (4, 32)
    assert not Owner.gone
    del matrix
    assert Owner.gone
