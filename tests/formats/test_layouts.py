"""Compute layouts: rows side by side in groups hold what the stored rows hold, and only their kernels take them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata_gen.model.interleaved import plan_interleaved
from strata_gen.model.specset import SpecSet
from strata_runtime.provider import Provider
from support.blocks import block_of, laid_out, names
from support.kernels import Kernels, Stored, address, bits

ISA = "avx512vnni"
NAMES = laid_out(ISA)
ROWS = (1, 15, 16, 17, 33)
pytestmark = pytest.mark.native


@pytest.fixture
def arranged(provider: Provider, native: Any) -> Any:
    if ISA not in native.ISAS:
        pytest.skip(f"this CPU has no {ISA}")
    with Kernels(provider, isa=ISA, knobs={"pool.threads": "2"}, arranged=True) as made:
        yield made


def one_by_one(kernels: Kernels, weights: Stored) -> np.ndarray[Any, np.dtype[np.float64]]:
    """All weights [rows, columns], each as the product with an input that is 127 there and 0 elsewhere: not rounded."""
    inputs = 127 * np.eye(weights.columns, dtype=np.float32)
    return kernels.linear(weights, inputs).T.astype(np.float64) / 127


def test_layouts_are_those_of_the_specs(provider: Provider, native: Any, specs: SpecSet) -> None:
    for isa in native.ISAS:
        with Kernels(provider, isa=isa) as kernels:
            for spec in specs.formats:
                layout = native.layout(kernels.pool, spec.name)
                assert (0 if layout is None else layout.rows) == spec.interleaved_rows(isa), (isa, spec.name)
    assert set(NAMES) >= {"q8_0", "q4_0", "q4_k", "q6_k", "iq3_s", "iq4_xs", "mxfp4"}


@pytest.mark.parametrize("name", NAMES)
def test_arranging_loses_nothing(arranged: Kernels, name: str) -> None:
    for rows in ROWS:
        weights = arranged.random(name, rows, 2 * block_of(name), seed=rows)
        exact = weights.decoded.astype(np.float64)
        assert np.abs(one_by_one(arranged, weights) - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("byte", [0x00, 0x0F, 0x55, 0xAA, 0xF0, 0xFF])
def test_blocks_of_one_byte_keep_their_value(arranged: Kernels, name: str, byte: int) -> None:
    weights = arranged.random(name, 16, block_of(name))
    field = weights.format.scale
    assert field is not None
    scales = weights.blocks[:, field.offset : field.offset + 2].copy()
    weights.blocks[:] = byte
    weights.blocks[:, field.offset : field.offset + scales.shape[1]] = scales
    if (minimum := weights.format.minimum) is not None:
        weights.blocks[:, minimum.offset : minimum.offset + 2] = scales
    weights = Stored(weights.format, weights.blocks, weights.format.decode(weights.blocks))
    exact = weights.decoded.astype(np.float64)
    assert np.abs(one_by_one(arranged, weights) - exact).max() <= 1e-6 * np.abs(exact).max()


@pytest.mark.parametrize("name", NAMES)
def test_a_matrix_takes_whole_groups_and_then_rows_as_they_are_stored(
    arranged: Kernels, specs: SpecSet, name: str
) -> None:
    (spec,) = (spec for spec in specs.formats if spec.name == name)
    layout, info = arranged.layout(name), arranged.formats[name]
    columns = 2 * info.block_elements
    for rows in ROWS:
        groups, rest = divmod(rows, 16)
        expected = groups * 16 * 2 * plan_interleaved(spec).bytes + rest * info.row_bytes(columns)
        assert layout.bytes(rows, columns) == expected
    weights = arranged.random(name, 33, columns)
    placed = arranged.place(weights).bytes
    assert np.array_equal(placed[-info.row_bytes(columns) :], weights.blocks[32])


@pytest.mark.parametrize("name", NAMES)
def test_pieces_of_whole_groups_are_arranged_as_the_whole_is(arranged: Kernels, name: str) -> None:
    layout, columns = arranged.layout(name), block_of(name)
    weights = arranged.random(name, 85, columns)
    pieces = []
    for first, last in ((0, 16), (16, 64), (64, 85)):
        piece = np.full(layout.bytes(last - first, columns), 0xA5, np.uint8)
        blocks = np.ascontiguousarray(weights.blocks[first:last])
        arranged.native.arrange(arranged.pool, layout, last - first, columns, address(blocks), address(piece))
        pieces.append(piece)
    assert np.array_equal(np.concatenate(pieces), arranged.place(weights).bytes)


@pytest.mark.parametrize("name", NAMES)
def test_both_layouts_agree_but_for_the_order_of_sums(arranged: Kernels, provider: Provider, name: str) -> None:
    weights = arranged.random(name, 48, 4 * block_of(name))
    x = np.random.default_rng(1).standard_normal((5, weights.columns), dtype=np.float32)
    with Kernels(provider, isa=ISA) as plain:
        stored = plain.linear(weights, x)
    found = arranged.linear(weights, x)
    assert np.abs(found - stored).max() <= 2e-6 * np.abs(weights.decoded).max() * np.abs(x).sum(1).max()


@pytest.mark.parametrize("name", NAMES)
def test_fetching_ahead_changes_no_bit(arranged: Kernels, provider: Provider, name: str) -> None:
    columns = 2 * block_of(name)
    stored = arranged.random(name, 70, columns)
    pools = [
        Kernels(provider, isa=ISA, knobs={"pool.threads": "2", "pool.fetch_ahead": value}, arranged=True)
        for value in ("off", "on")
    ]
    with pools[0] as off, pools[1] as on:
        assert not off.pool.fetches_ahead
        assert on.pool.fetches_ahead
        for tokens in (1, 2, 3, 9):
            x = np.random.default_rng(tokens).standard_normal((tokens, columns), np.float32)
            assert np.array_equal(bits(off.linear(stored, x)), bits(on.linear(stored, x))), tokens


def test_whether_fetching_ahead_pays_is_one_fact_of_a_process(provider: Provider, native: Any) -> None:
    for isa in native.ISAS:
        facts = set()
        for threads in ("1", "2", "1"):
            with Kernels(provider, isa=isa, knobs={"pool.threads": threads}) as kernels:
                facts.add(kernels.pool.fetches_ahead)
        assert len(facts) == 1
        assert isa == ISA or facts == {False}  # without a compute layout there is nothing to fetch


def test_a_matrix_is_for_the_kernels_that_it_was_arranged_for(arranged: Kernels, provider: Provider) -> None:
    weights = arranged.random("q8_0", 32, 64)
    matrix = arranged.matrix(weights)
    x, out = np.zeros((1, 64), np.float32), np.zeros((1, 32), np.float32)
    message = "was arranged for other kernels than those of generic"
    with Kernels(provider, isa="generic") as other, pytest.raises(ValueError, match=message):
        other.native.linear(other.pool, matrix, 1, address(x), address(out))


def test_wrong_arguments_are_refused(arranged: Kernels, provider: Provider) -> None:
    native, pool, layout = arranged.native, arranged.pool, arranged.layout("q8_0")
    weights = arranged.random("q8_0", 16, 64)
    blocks, placed = address(weights.blocks), arranged.place(weights).bytes
    with pytest.raises(ValueError, match="a matrix in q4_0 cannot have the layout of q8_0"):
        native.make_matrix("q4_0", 16, 64, address(placed), placed.nbytes, placed, 1.0, layout)
    with pytest.raises(ValueError, match="a matrix of 16 x 64 in q8_0 takes 1088 bytes, not 1087"):
        native.make_matrix("q8_0", 16, 64, address(placed), placed.nbytes - 1, placed, 1.0, layout)
    with pytest.raises(ValueError, match="a row of 65 values cannot be stored as q8_0"):
        layout.bytes(16, 65)
    with pytest.raises(ValueError, match="arrange: null address of weights"):
        native.arrange(pool, layout, 16, 64, blocks, 0)
    with (
        Kernels(provider, isa="generic") as other,
        pytest.raises(ValueError, match="the kernels of generic read q8_0 as it is stored"),
    ):
        native.arrange(other.pool, layout, 16, 64, blocks, address(placed))


@pytest.mark.parametrize("name", [name for name in names() if block_of(name) == 1])
def test_plain_floats_are_read_as_they_are_stored(arranged: Kernels, name: str) -> None:
    assert arranged.layout(name) is None


@pytest.mark.parametrize("name", NAMES)
def test_no_tokens_and_a_single_row(arranged: Kernels, name: str) -> None:
    weights = arranged.random(name, 17, block_of(name))
    assert arranged.linear(weights, np.zeros((0, weights.columns), np.float32)).shape == (0, 17)
    x = np.random.default_rng(2).standard_normal((8, weights.columns), dtype=np.float32)
    together = arranged.linear(weights, x)
    for token in range(8):
        assert np.array_equal(bits(arranged.linear(weights, x[token : token + 1])[0]), bits(together[token]))
