"""Attention of a compiled package beyond its results, which are those of the parity tests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from strata_runtime.provider import Provider
from support.kernels import Floats, Kernels, address, bits

pytestmark = pytest.mark.native

CAPACITY, HEADS, KV_HEADS, DIM = 600, 6, 2, 20


@pytest.fixture
def kernels(provider: Provider) -> Iterator[Kernels]:
    with Kernels(provider, knobs={"pool.threads": "3"}) as made:
        yield made


def random(*shape: int) -> Floats:
    return np.random.default_rng(0).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("start", [0, 250, 510])
def test_a_token_has_the_same_bits_in_any_company_and_on_any_number_of_threads(
    kernels: Kernels, provider: Provider, start: int
) -> None:
    cache, queries = random(2, KV_HEADS, CAPACITY, DIM), random(8, HEADS, DIM)
    together = kernels.attend(queries, cache, start)
    with Kernels(provider, knobs={"pool.threads": "1"}) as single:
        alone = [single.attend(queries[token : token + 1], cache, start + token)[0] for token in range(8)]
    assert np.array_equal(bits(together), bits(np.stack(alone)))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_key_that_is_no_finite_number_shows_in_all_who_look_at_it(kernels: Kernels, value: float) -> None:
    cache, queries = random(2, KV_HEADS, CAPACITY, DIM), random(8, HEADS, DIM)
    cache[0, 1, 303, 0] = value
    finite = np.isfinite(kernels.attend(queries, cache, 300)).all(-1)
    assert finite[:3].all()
    assert finite[:, : HEADS // KV_HEADS].all()
    assert not finite[3:, HEADS // KV_HEADS :].any()


def test_what_is_behind_a_token_does_not_matter(kernels: Kernels) -> None:
    cache, queries = random(2, KV_HEADS, CAPACITY, DIM), random(3, HEADS, DIM)
    before = kernels.attend(queries, cache, 100)
    cache[:, :, 103:] = np.nan
    assert np.array_equal(kernels.attend(queries, cache, 100), before)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"shape": (6, 4, DIM)}, "as many queries share each key"),
        ({"shape": (6, 0, DIM)}, "as many queries share each key"),
        ({"length": CAPACITY - 2}, "3 tokens behind 598 do not fit into 600"),
        ({"length": CAPACITY + 1}, "3 tokens behind 601 do not fit into 600"),
        ({"cache": 0}, "null address of the cache"),
        ({"queries": 0}, "null address"),
        ({"rope_dim": 7}, "pairs inside a head are rotated"),
        ({"rope_dim": DIM + 2}, "pairs inside a head are rotated"),
        ({"angles": 0}, "null address of angles"),
        ({"norm": True}, "norms of both queries and keys"),
    ],
)
def test_what_does_not_fit_is_a_value_error(kernels: Kernels, changes: dict[str, Any], message: str) -> None:
    cache, queries, other = random(2, KV_HEADS, CAPACITY, DIM), random(3, HEADS, DIM), random(3, KV_HEADS, DIM)
    angles = random(CAPACITY, 2, DIM // 2)
    shape = changes.get("shape", (HEADS, KV_HEADS, DIM))
    place = (changes.get("cache", address(cache)), CAPACITY, changes.get("length", 10))
    rules = (address(angles) if "norm" in changes else 0, 0, 1e-6, 1.0, changes.get("rope_dim", DIM))
    at = changes.get("queries", address(queries))
    where = (changes.get("angles", address(angles)), at, address(other), address(other))
    with pytest.raises(ValueError, match=message):
        kernels.native.prepare_heads(kernels.pool, shape, rules, place, 3, *where)
    if changes.keys() <= {"shape", "length", "cache", "queries"}:
        with pytest.raises(ValueError, match=message):
            kernels.native.attend(kernels.pool, shape, place, 3, at, address(queries))
