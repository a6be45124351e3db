"""Decoding agrees bit for bit with the gguf package and the numpy decoder, whatever the bits; all NaN are alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from strata_runtime.provider import Provider
from support.blocks import SPECIAL_HALVES, names, reference_decode, same_values
from support.kernels import Kernels
from support.random_blocks import factors, put, random_blocks

NAMES = names()
pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def codec(provider: Provider) -> Kernels:
    return Kernels(provider, knobs={"pool.threads": "1"})


def agree(codec: Kernels, name: str, blocks: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> bool:
    info = codec.formats[name]
    columns = blocks.shape[1] // info.block_bytes * info.block_elements
    decoded = codec.decode(name, blocks, columns)
    return same_values(decoded, reference_decode(info, blocks)) and same_values(decoded, info.decode(blocks))


@pytest.mark.parametrize("name", NAMES)
def test_random_blocks(codec: Kernels, name: str) -> None:
    info = codec.formats[name]
    assert agree(codec, name, random_blocks(info, 200, 4 * info.block_elements))
    assert agree(codec, name, np.random.default_rng(1).integers(0, 256, (200, 4 * info.block_bytes), np.uint8))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("byte", [0x00, 0x01, 0x7F, 0x80, 0xFF])
def test_blocks_of_one_byte(codec: Kernels, name: str, byte: int) -> None:
    assert agree(codec, name, np.full((1, codec.formats[name].block_bytes), byte, np.uint8))


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_of_a_block_matters_and_none_beyond_it(codec: Kernels, name: str) -> None:
    info = codec.formats[name]
    blocks = random_blocks(info, 1, 3 * info.block_elements)
    before = info.decode(blocks)
    for byte in range(info.block_bytes):
        changed = blocks.copy()
        changed[0, info.block_bytes + byte] ^= 0xFF
        assert agree(codec, name, changed)
        different = (info.decode(changed) != before).reshape(3, -1).any(axis=1)
        assert different.tolist() == [False, True, False], byte


@pytest.mark.parametrize("name", NAMES)
def test_infinite_subnormal_and_missing_factors(codec: Kernels, name: str) -> None:
    info = codec.formats[name]
    for field in factors(info):
        special = np.array(SPECIAL_HALVES, np.uint16) if field.type == "f16" else np.arange(256, dtype=np.uint8)
        blocks = random_blocks(info, len(special), info.block_elements)
        put(blocks, field, special)
        assert agree(codec, name, blocks)


@given(data=st.data())
@settings(max_examples=60, deadline=None)
@pytest.mark.parametrize("name", NAMES)
def test_any_bytes(codec: Kernels, name: str, data: st.DataObject) -> None:
    assert agree(codec, name, data.draw(arrays(np.uint8, (2, 2 * codec.formats[name].block_bytes))))
