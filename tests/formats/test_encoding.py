"""Encoding agrees bit for bit with the gguf package's reference, and refuses what a block cannot hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from strata_gen.model.specset import SpecSet
from strata_runtime.provider import Provider
from support.blocks import block_of, has_reference_encoder, names, reference_encode
from support.kernels import Kernels, bits

NAMES = names(encoded=True)
EXACT = [name for name in NAMES if has_reference_encoder(name)]
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def codec(provider: Provider) -> Kernels:
    return Kernels(provider, knobs={"pool.threads": "3"})


def samples(columns: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    generator = np.random.default_rng(7)
    rows = generator.standard_normal((64, columns)) * 10.0 ** generator.uniform(-6, 4, (64, 1))
    rows[0] = 0
    rows[1, 1:] = 0
    rows[2] = np.arange(columns) - columns / 2  # halves after scaling: rounded away from zero
    rows[3] = -0.0
    return rows.astype(np.float32)


def test_the_package_has_the_formats_of_the_specs(provider: Provider, specs: SpecSet) -> None:
    assert [info.name for info in provider.formats] == [spec.name for spec in specs.formats]
    assert [info.name for info in provider.formats if info.encodes] == NAMES
    assert {"bf16", "f16", "f32", "mxfp4", "q4_0", "q8_0"} <= set(EXACT)
    assert names() == NAMES


@pytest.mark.parametrize("name", EXACT)
def test_encoded_blocks_equal_the_reference(codec: Kernels, name: str) -> None:
    values = samples(96)
    assert np.array_equal(codec.encode(name, values), reference_encode(codec.formats[name], values))


@pytest.mark.parametrize("name", [name for name in EXACT if block_of(name) > 1])
def test_equal_peaks_of_both_signs_and_values_halfway(codec: Kernels, name: str) -> None:
    values = np.zeros((4, 32), np.float32)
    values[0, [3, 9]] = 1, -1
    values[1, [3, 9]] = -1, 1
    values[2] = (np.arange(32) - 16) / 2
    values[3] = -values[2]
    assert np.array_equal(codec.encode(name, values), reference_encode(codec.formats[name], values))


@given(values=arrays(np.float32, (1, 32), elements=st.floats(width=32, allow_nan=False, allow_infinity=False)))
@settings(max_examples=200, deadline=None)
def test_q8_0_is_within_half_a_step_or_refused(codec: Kernels, values: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    step = np.abs(values.astype(np.float64)).max() / 127
    if step >= 65520:  # beyond half precision
        with pytest.raises(ValueError, match="not finite or too large"):
            codec.encode("q8_0", values)
        return
    decoded = codec.decode("q8_0", codec.encode("q8_0", values), 32).astype(np.float64)
    # The stored scale is rounded to half precision: 2^-11 of it, or 2^-25 where half is subnormal; 127 steps of that.
    rounding = 127 * max(step * 2**-11, 2**-25)
    assert np.abs(decoded - values).max() <= 0.5 * step * (1 + 1e-5) + rounding


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e38])
@pytest.mark.parametrize("name", [name for name in NAMES if block_of(name) > 1])
def test_blocks_refuse_what_they_cannot_hold_and_say_where(codec: Kernels, name: str, bad: float, shared: bool) -> None:
    """The first of several, whichever thread comes upon one first."""
    block = block_of(name)
    values = np.zeros((3, 200 * block), np.float32)
    values[1, 2 * block + 5 :: 70 * block] = bad
    scale = codec.formats[name].scale
    assert scale is not None
    if np.isfinite(bad) and scale.type == "e8m0_half":  # which reaches as far as float32
        decoded = codec.decode(name, codec.encode(name, values, shared=shared), values.shape[1])
        assert np.isfinite(decoded).all()
        return
    with pytest.raises(ValueError, match=f"row 1, columns {2 * block} to {3 * block - 1} cannot be stored as {name}"):
        codec.encode(name, values, shared=shared)


@pytest.mark.parametrize("name", NAMES)
def test_a_pool_changes_no_bit(codec: Kernels, name: str) -> None:
    values = np.random.default_rng(3).standard_normal((70, 2048), dtype=np.float32)
    blocks = codec.encode(name, values)
    assert np.array_equal(codec.encode(name, values, shared=True), blocks)
    decoded = codec.decode(name, blocks, 2048)
    assert np.array_equal(bits(codec.decode(name, blocks, 2048, shared=True)), bits(decoded))


@pytest.mark.parametrize("power", [-130, -126, -60, 0, 60, 124])
def test_a_power_of_two_as_scale_is_the_one_below(codec: Kernels, power: int) -> None:
    """Numbers of e2m1 times such a power come back as they are, at either end of the range."""
    levels = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float64)
    values = (np.concatenate([levels, -levels, levels[::-1], -levels[::-1]]) * 2.0**power).astype(np.float32)[None]
    decoded = codec.decode("mxfp4", codec.encode("mxfp4", values), 32)
    exact = np.abs(values) >= 2.0**-127 if power < -126 else np.full(values.shape, True)
    assert np.array_equal(decoded[exact], values[exact])


@pytest.mark.parametrize("special", [1e-45, -0.0, 3.3e38, 65504.0, np.inf, -np.inf, np.nan, 3.4e38])
@pytest.mark.parametrize("name", [name for name in NAMES if block_of(name) == 1])
def test_plain_formats_keep_special_values_or_refuse_them(codec: Kernels, name: str, special: float) -> None:
    values = np.full((1, 5), special, np.float32)
    with np.errstate(over="ignore"):
        expected = reference_encode(codec.formats[name], values)
    if not np.isfinite(codec.formats[name].decode(expected)).all():
        with pytest.raises(ValueError, match=f"columns 0 to 0 cannot be stored as {name}"):
            codec.encode(name, values)
        return
    blocks = codec.encode(name, values)
    assert np.array_equal(blocks, expected)
    assert np.array_equal(bits(codec.decode(name, blocks, 5)), bits(codec.formats[name].decode(blocks)))


def test_a_row_that_blocks_do_not_divide_is_refused(codec: Kernels) -> None:
    with pytest.raises(ValueError, match=r"a row of 100 values .* as q8_0: its blocks hold 32 values each"):
        codec.native.quantize("q8_0", 1, 100, 0, 0)
    with pytest.raises(ValueError, match="a row of 100 values cannot be stored as q8_0"):
        codec.formats["q8_0"].row_bytes(100)


def test_no_rows_are_no_work(codec: Kernels) -> None:
    codec.native.quantize("q8_0", 0, 32, 0, 0)
    codec.native.dequantize("q8_0", 0, 32, 0, 0)
