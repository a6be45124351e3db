"""Attention of windows: against float64, the same bits at every width of waves and in any company."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from support import layer_reference as reference
from support.device import WAVES, Machine, Refused
from support.device_reference import bits

Floats = NDArray[np.float32]


def random(seed: int, *shape: int) -> Floats:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


TILES = ("none", "mma", "wmma", "wmma_gfx12", "mfma")
"""Kinds of matrix instructions, by their numbers in a job."""
BY_TILES = pytest.mark.parametrize("tiles", TILES[1:])


def attend(
    machine: Machine, queries: Floats, cache: NDArray[Any], start: int, wave: int, tiles: str = "none"
) -> tuple[Floats, bytes]:
    """Results [tokens, heads, dim], and their quantised form where elements are whole blocks.

    With `tiles` the kernel runs at the width of waves that they have.
    """
    (tokens, heads, dim), (_, kv_heads, capacity, _) = queries.shape, cache.shape
    number = {np.dtype(np.float32): 0, np.dtype(np.float16): 1, np.dtype(np.uint16): 2}[cache.dtype]
    numbers = [tokens, heads, kv_heads, dim, capacity, number, *([TILES.index(tiles)] if tiles != "none" else [])]
    room = np.zeros(queries.size // 32 * 40, np.uint8) if dim % 32 == 0 else None
    given = [cache, np.array([start], np.int32), queries, np.full_like(queries, 7), room]
    done = machine.run("attend", numbers, given, wave)
    return done[3], done[4].tobytes()


def expected(queries: Floats, cache: NDArray[Any], start: int) -> NDArray[np.float64]:
    keys, values = reference.loaded(cache).astype(np.float64)
    group = queries.shape[1] // keys.shape[0]
    out = np.empty(queries.shape)
    for token, head in np.ndindex(queries.shape[:2]):
        filled = slice(start + token + 1)
        scores = keys[head // group, filled] @ queries[token, head].astype(np.float64)
        weights = np.exp(scores - scores.max())
        out[token, head] = weights / weights.sum() @ values[head // group, filled]
    return out


@pytest.mark.parametrize("cache_type", reference.CACHE_TYPES)
@pytest.mark.parametrize(
    ("tokens", "heads", "kv_heads", "dim", "start"),
    [
        (1, 4, 2, 32, 0),
        (3, 2, 1, 20, 62),
        (2, 8, 4, 128, 70),
        (5, 3, 1, 64, 200),
        (1, 2, 2, 256, 130),
        (8, 2, 1, 32, 40),
    ],
)
def test_windows_attend_to_what_is_filled(
    machine: Machine, cache_type: str, tokens: int, heads: int, kv_heads: int, dim: int, start: int
) -> None:
    queries = random(tokens, tokens, heads, dim) * np.float32(2 / np.sqrt(dim))
    cache = reference.stored(random(start, 2, kv_heads, 210, dim), cache_type)
    unfilled = slice(start + tokens, None)
    cache[:, :, unfilled] = reference.stored(np.full_like(random(0, 1), np.nan), cache_type)
    found = [attend(machine, queries, cache, start, wave) for wave in WAVES]
    for out, q in found:
        np.testing.assert_allclose(out, expected(queries, cache, start), rtol=0, atol=1e-5)
        assert dim % 32 != 0 or q == reference.quantised(out.reshape(tokens, -1))
        assert np.array_equal(bits(out), bits(found[0][0]))


@pytest.mark.parametrize("cache_type", ["f32", "f16"])
def test_bits_of_a_token_do_not_depend_on_its_company(machine: Machine, cache_type: str) -> None:
    """Spans change their width at 128 and 256 positions here: some windows hold tokens of both widths."""
    heads, kv_heads, dim = 64, 64, 8
    cache = reference.stored(random(1, 2, kv_heads, 300, dim), cache_type)
    for start in (20, 122, 126, 254):
        queries = random(start, 8, heads, dim)
        together, _ = attend(machine, queries, cache, start, 1)
        for token in range(8):
            alone, _ = attend(machine, queries[token : token + 1], cache, start + token, 1)
            assert np.array_equal(bits(alone[0]), bits(together[token]))
        np.testing.assert_allclose(together, expected(queries, cache, start), rtol=0, atol=1e-5)


def test_scores_that_are_no_numbers_spoil_their_own_query_alone(machine: Machine, wave: int) -> None:
    queries, cache = random(0, 2, 2, 32), random(1, 2, 1, 100, 32)
    sound, _ = attend(machine, queries, cache, 80, wave)
    queries[0, 1, 3] = np.inf
    out, _ = attend(machine, queries, cache, 80, wave)
    assert np.isnan(out[0, 1]).all()
    out[0, 1] = sound[0, 1]
    assert np.array_equal(bits(out), bits(sound))


def test_shapes_that_it_is_not_made_for_are_refused(machine: Machine, wave: int) -> None:
    cache = np.zeros((2, 1, 4, 300), np.float32)
    with pytest.raises(Refused, match="attend_window: a head has from 1 to 256 elements"):
        attend(machine, np.zeros((1, 1, 300), np.float32), cache, 0, wave)
    with pytest.raises(Refused, match="attend_window: as many queries must share each key"):
        attend(machine, np.zeros((1, 3, 32), np.float32), np.zeros((2, 2, 4, 32), np.float32), 0, wave)


@BY_TILES
@pytest.mark.parametrize(
    ("cache_type", "tokens", "heads", "kv_heads", "dim", "start"),
    [
        ("f16", 1, 8, 1, 128, 300),
        ("f16", 5, 3, 1, 64, 62),
        ("bf16", 2, 2, 2, 32, 0),
        ("bf16", 8, 20, 2, 32, 150),  # 80 rows: two blocks share a head of keys
    ],
)
def test_tiles_attend_to_what_is_filled(
    machine: Machine, tiles: str, cache_type: str, tokens: int, heads: int, kv_heads: int, dim: int, start: int
) -> None:
    queries = random(tokens, tokens, heads, dim) * np.float32(2 / np.sqrt(dim))
    cache = reference.stored(random(start, 2, kv_heads, 310, dim), cache_type)
    cache[:, :, start + tokens :] = reference.stored(np.full_like(random(0, 1), np.nan), cache_type)
    rounded = reference.loaded(reference.stored(queries, cache_type))
    out, q = attend(machine, queries, cache, start, 32, tiles)
    np.testing.assert_allclose(out, expected(rounded, cache, start), rtol=0, atol=4e-3 if cache_type == "f16" else 2e-2)
    assert q == reference.quantised(out.reshape(tokens, -1))


@pytest.mark.parametrize("tiles", ["mma", "wmma", "mfma"])
def test_bits_of_a_token_in_tiles_do_not_depend_on_its_company(machine: Machine, tiles: str) -> None:
    """With 43 heads of keys spans change their width at 128 positions: the window holds tokens of both widths."""
    cache = reference.stored(random(1, 2, 43, 135, 32), "bf16")
    queries = random(2, 4, 43, 32)
    together, _ = attend(machine, queries, cache, 125, 32, tiles)
    np.testing.assert_allclose(together, expected(queries, cache, 125), rtol=0, atol=6e-2)
    for token in (1, 3):
        alone, _ = attend(machine, queries[token : token + 1], cache, 125 + token, 32, tiles)
        assert np.array_equal(bits(alone[0]), bits(together[token])), token
