"""Linear layers: near the float64 product, and the same bits however the work is cut."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_gen.model.specset import SpecSet
from strata_runtime.provider import Provider
from support.blocks import block_of, laid_out, names
from support.kernels import Floats, Kernels, Stored, bits, error_scale, product
from support.random_blocks import factors, put

NAMES = names()
LAYOUTS = {isa: laid_out(isa) for isa in ("generic", "avx2", "avx512", "avx512vnni")}
MOST_TOKENS = 8
pytestmark = pytest.mark.native


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def wide(name: str, columns: int) -> int:
    """The next width that blocks divide."""
    return -(-columns // block_of(name)) * block_of(name)


def bound(specs: SpecSet, activation: str) -> float:
    (kernel,) = (kernel for kernel in specs.kernels if kernel.name == "linear")
    (tolerance,) = (tolerance for tolerance in kernel.tolerances if tolerance.activation == activation)
    return tolerance.bound


def widths(name: str) -> list[int]:
    return {
        1: [1, 7, 8, 15, 16, 17, 100, 256, 2880],
        32: [32, 64, 96, 256, 704, 2880],
        256: [256, 512, 768, 2816],
    }[block_of(name)]


@pytest.mark.parametrize("name", NAMES)
def test_is_within_the_stated_bound_of_the_float64_product(kernels: Kernels, specs: SpecSet, name: str) -> None:
    allowed = bound(specs, kernels.formats[name].activation)
    for columns in widths(name):
        weights = kernels.random(name, 37, columns)
        for tokens in (1, 2, 3, 4, 5, 6, 7, 8, 9, 21):
            x = random(tokens, tokens, columns)
            error = np.abs(kernels.linear(weights, x) - product(weights, x))
            assert (error <= allowed * error_scale(weights, x)).all(), (columns, tokens)


@pytest.mark.parametrize("name", NAMES)
def test_a_tokens_bits_do_not_depend_on_who_shares_the_pass(kernels: Kernels, name: str) -> None:
    for columns in widths(name):
        weights = kernels.random(name, 37, columns)
        x = random(1, 2 * MOST_TOKENS + 5, columns)
        together = kernels.linear(weights, x)
        for tokens in range(1, MOST_TOKENS + 1):
            for first in range(0, len(x) - tokens + 1, 3):
                alone = kernels.linear(weights, np.ascontiguousarray(x[first : first + tokens]))
                assert np.array_equal(bits(alone), bits(together[first : first + tokens])), (columns, tokens)


@pytest.mark.parametrize("name", NAMES)
def test_a_rows_bits_do_not_depend_on_the_rows_around_it(kernels: Kernels, name: str) -> None:
    weights = kernels.random(name, 41, wide(name, 96))
    x = random(2, 5, weights.columns)
    whole = kernels.linear(weights, x)
    # Rows that stand side by side are summed in another order than those that fill no group.
    layout = kernels.layout(name)
    parts = [(0, 1), (1, 4), (3, 8), (5, 41), (40, 41)] if layout is None else [(0, 16), (16, 41), (0, 32), (32, 41)]
    for first, last in parts:
        part = Stored(weights.format, np.ascontiguousarray(weights.blocks[first:last]), weights.decoded[first:last])
        assert np.array_equal(bits(kernels.linear(part, x)), bits(whole[:, first:last]))


@pytest.mark.parametrize("arranged", [False, True])
@pytest.mark.parametrize("isa", ["generic", "avx2", "avx512", "avx512vnni"])
def test_bits_do_not_depend_on_threads_or_claims(provider: Provider, isa: str, arranged: bool) -> None:
    if isa not in provider.native.ISAS:  # type: ignore[attr-defined]
        pytest.skip(f"this CPU has no {isa}")
    if arranged and not LAYOUTS[isa]:
        pytest.skip(f"{isa} has no compute layouts")
    results: dict[str, list[Any]] = {}
    for threads in ("1", "2", "3", "8"):
        for claim in ("0", "32", "64", "4096"):
            knobs = {"pool.threads": threads, "pool.claim_rows": claim}
            with Kernels(provider, isa=isa, knobs=knobs, arranged=arranged) as kernels:
                for name in LAYOUTS[isa] if arranged else NAMES:
                    weights = kernels.random(name, 517, 256)
                    results.setdefault(name, []).append(bits(kernels.linear(weights, random(3, 11, 256))))
    for name, outputs in results.items():
        assert all(np.array_equal(outputs[0], other) for other in outputs), name


def test_quantised_inputs_have_the_same_bits_at_every_level(provider: Provider) -> None:
    """Weight rows that are 1 at one place and 0 elsewhere copy the quantised input to the output."""
    columns = 96
    x = random(4, 6, columns) * np.float32(10.0) ** np.arange(-3, 3, dtype=np.float32)[:, None]
    x[1] = 0
    x[2, :32] = 1e-38
    x[3, 5] = 3e38
    x[4, 32:64] = 1e-45
    outputs = []
    for isa in provider.native.ISAS:  # type: ignore[attr-defined]
        with Kernels(provider, isa=isa, knobs={"pool.threads": "1"}) as kernels:
            blocks = np.zeros((columns, columns // 32, 34), np.uint8)
            blocks[..., 1] = 0x3C  # 1.0 in half precision
            blocks[np.arange(columns), np.arange(columns) // 32, 2 + np.arange(columns) % 32] = 1
            info = kernels.formats["q8_0"]
            packed = blocks.reshape(columns, -1)
            outputs.append(kernels.linear(Stored(info, packed, info.decode(packed)), x))
    assert all(np.array_equal(bits(outputs[0]), bits(other)) for other in outputs)
    largest = np.abs(x.reshape(6, 3, 32)).max(axis=2, keepdims=True)
    largest[largest < 2.0**-100] = 0
    step = largest / np.float32(127)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.where(step > 0, np.rint(x.reshape(6, 3, 32) / step), 0).astype(np.float32)
    assert np.array_equal(outputs[0], (values * step).reshape(6, columns))


@pytest.mark.parametrize("name", NAMES)
def test_infinities_and_nans_reach_their_own_token_only(kernels: Kernels, name: str) -> None:
    weights = kernels.random(name, 9, wide(name, 64))
    x = random(5, 6, weights.columns)
    clean = kernels.linear(weights, x)
    x[1, 3], x[4, 60] = np.inf, np.nan
    out = kernels.linear(weights, x)
    assert not np.isfinite(out[[1, 4]]).any()
    kept = [0, 2, 3, 5]
    assert np.array_equal(bits(out[kept]), bits(clean[kept]))


@pytest.mark.parametrize("byte", [0x00, 0x0F, 0x70, 0x7F, 0x80, 0x88, 0xF0, 0xFF])
@pytest.mark.parametrize("name", [name for name in NAMES if block_of(name) > 1])
def test_the_extreme_weights_and_inputs_do_not_overflow(kernels: Kernels, name: str, byte: int) -> None:
    """All products of one sign and as large as they come: sums of 16 and 32 bits must not saturate or wrap."""
    info = kernels.formats[name]
    columns = 3 * info.block_elements
    blocks = np.full((5, 3, info.block_bytes), byte, np.uint8)
    for field in factors(info):
        put(blocks, field, np.full((5, 3), 1, np.float16) if field.type == "f16" else np.full((5, 3), 128, np.uint8))
    blocks = blocks.reshape(5, -1)
    weights = Stored(info, blocks, info.decode(blocks))
    signs = np.where(weights.decoded[0] < 0, -127, 127).astype(np.float32)
    x = np.stack([signs, -signs, np.full(columns, 127, np.float32)])
    expected = product(weights, x)
    assert np.allclose(kernels.linear(weights, x), expected, rtol=3e-7, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("name", [name for name in NAMES if block_of(name) > 1])
def test_inputs_of_whole_steps_lose_nothing(kernels: Kernels, name: str) -> None:
    """Inputs that are their own quantised form leave only the rounding of float32 sums."""
    weights = kernels.random(name, 23, wide(name, 512))
    x = np.random.default_rng(8).integers(-127, 128, (5, weights.columns)).astype(np.float32)
    x[:, ::32] = 127
    error = np.abs(kernels.linear(weights, x) - product(weights, x))
    assert (error <= 2e-6 * error_scale(weights, x)).all()


@pytest.mark.parametrize("name", NAMES)
def test_no_tokens_are_no_work(kernels: Kernels, name: str) -> None:
    weights = kernels.random(name, 3, wide(name, 32))
    assert kernels.linear(weights, np.zeros((0, weights.columns), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("name", NAMES)
def test_a_long_prompt_equals_its_tokens_one_by_one(provider: Provider, name: str) -> None:
    with Kernels(provider, knobs={"pool.threads": "2"}) as kernels:
        weights = kernels.random(name, 70, wide(name, 64))
        x = random(6, 1100, weights.columns)
        whole = kernels.linear(weights, x)
        for token in (0, 7, 8, 511, 512, 513, 1023, 1024, 1099):
            assert np.array_equal(bits(kernels.linear(weights, x[token : token + 1])[0]), bits(whole[token]))


@pytest.fixture(scope="module")
def small_claims(provider: Provider) -> Iterator[Kernels]:
    with Kernels(provider, knobs={"pool.threads": "2", "pool.claim_rows": "32"}) as made:
        yield made


@given(data=st.data())
@settings(max_examples=40, deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_odd_shapes(small_claims: Kernels, specs: SpecSet, name: str, data: st.DataObject) -> None:
    rows, tokens = data.draw(st.integers(1, 80)), data.draw(st.integers(0, 20))
    unit = block_of(name)
    columns = unit * data.draw(st.integers(1, max(1, 160 // unit)))
    allowed = bound(specs, small_claims.formats[name].activation)
    weights = small_claims.random(name, rows, columns)
    x = random(7, tokens, columns)
    error = np.abs(small_claims.linear(weights, x) - product(weights, x))
    assert (error <= allowed * error_scale(weights, x)).all()


@pytest.mark.parametrize("name", NAMES)
def test_a_matrixs_scale_multiplies_its_products(kernels: Kernels, name: str) -> None:
    weights = kernels.random(name, 37, wide(name, 64))
    x = random(2, 9, weights.columns)
    expected = kernels.linear(weights, x) * np.float32(-1.75)
    assert np.array_equal(bits(kernels.linear(weights, x, scale=-1.75)), bits(expected))
