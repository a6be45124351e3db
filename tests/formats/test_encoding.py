"""Encoding and decoding agree bit for bit with the gguf package's reference and with the numpy decoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, quants
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from strata_gen.model.specset import SpecSet
from strata_runtime.provider import Provider
from support.kernels import Kernels, bits

NAMES = ["bf16", "f32", "q8_0"]
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def codec(provider: Provider) -> Kernels:
    return Kernels(provider, knobs={"pool.threads": "1"})


def reference_type(specs: SpecSet, name: str) -> GGMLQuantizationType:
    (spec,) = (spec for spec in specs.formats if spec.name == name)
    assert spec.gguf is not None
    return GGMLQuantizationType[spec.gguf]


def samples(columns: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    generator = np.random.default_rng(7)
    rows = generator.standard_normal((64, columns)) * 10.0 ** generator.uniform(-6, 4, (64, 1))
    rows[0] = 0
    rows[1, 1:] = 0
    rows[2] = np.arange(columns) - columns / 2  # halves after scaling: rounded away from zero
    rows[3] = -0.0
    return rows.astype(np.float32)


def test_the_package_has_the_formats_of_the_specs(provider: Provider, specs: SpecSet) -> None:
    assert [info.name for info in provider.formats] == [spec.name for spec in specs.formats] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_encoded_blocks_equal_the_reference(codec: Kernels, specs: SpecSet, name: str) -> None:
    values = samples(96)
    expected = quants.quantize(values, reference_type(specs, name)).view(np.uint8).reshape(len(values), -1)
    assert np.array_equal(codec.encode(name, values), expected)


@pytest.mark.parametrize("name", NAMES)
def test_decoded_values_equal_the_reference_and_the_numpy_decoder(codec: Kernels, specs: SpecSet, name: str) -> None:
    blocks = codec.encode(name, samples(96))
    decoded = codec.decode(name, blocks, 96)
    reference = quants.dequantize(blocks, reference_type(specs, name))
    assert np.array_equal(bits(decoded), bits(codec.formats[name].decode(blocks)))
    assert np.array_equal(bits(decoded), bits(reference.astype(np.float32)))


@given(data=st.data())
@settings(max_examples=100, deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_any_bytes_decode_like_the_numpy_decoder(codec: Kernels, name: str, data: st.DataObject) -> None:
    blocks = data.draw(arrays(np.uint8, (3, 2 * codec.formats[name].block_bytes)))
    decoded = codec.decode(name, blocks, 2 * codec.formats[name].block_elements)
    expected = codec.formats[name].decode(blocks)
    both_nan = np.isnan(decoded) & np.isnan(expected)
    assert np.array_equal(np.where(both_nan, 0, bits(decoded)), np.where(both_nan, 0, bits(expected)))


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


@pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan, 1e38])
def test_q8_0_refuses_what_it_cannot_hold_and_says_where(codec: Kernels, bad: float) -> None:
    values = np.zeros((3, 96), np.float32)
    values[1, 40] = bad
    with pytest.raises(ValueError, match="row 1, columns 32 to 63 cannot be stored as q8_0"):
        codec.encode("q8_0", values)


@pytest.mark.parametrize("special", [np.inf, -np.inf, np.nan, 1e-45, -0.0, 3.4e38])
@pytest.mark.parametrize("name", ["bf16", "f32"])
def test_plain_formats_keep_special_values(codec: Kernels, specs: SpecSet, name: str, special: float) -> None:
    values = np.full((1, 5), special, np.float32)
    blocks = codec.encode(name, values)
    expected = quants.quantize(values, reference_type(specs, name)).view(np.uint8).reshape(1, -1)
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
