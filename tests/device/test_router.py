"""Router top-k against numpy, bit by bit, and what it does with odd logits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from support import device_reference as reference
from support.device import WAVES, Machine, Refused

Floats = NDArray[np.float32]
SHAPES = [
    (1, 8, 1),
    (3, 48, 8),
    (8, 128, 8),
    (2, 256, 10),
    (1, 512, 16),
    (5, 129, 10),
    (2, 8, 8),
    (1, 1, 1),
    (2, 31, 4),
    (2, 33, 4),
    (1, 257, 8),
]


def route(
    machine: Machine,
    logits: Floats,
    top_k: int,
    wave: int,
    bias: Floats | None = None,
    *,
    sigmoid: bool = False,
    normalised: bool = True,
    scale: float = 1.0,
) -> tuple[NDArray[np.int32], Floats]:
    tokens, experts = logits.shape
    numbers = [tokens, experts, top_k, sigmoid, normalised, scale]
    ids = np.full((tokens, top_k), -7, np.int32)
    weights = np.full((tokens, top_k), np.nan, np.float32)
    return tuple(machine.run("router_topk", numbers, [logits, bias, ids, weights], wave)[2:])  # type: ignore[return-value]


def random_logits(tokens: int, experts: int, seed: int = 0) -> Floats:
    """Some of them equal."""
    generator = np.random.default_rng(seed)
    return np.round(generator.standard_normal((tokens, experts)) * 2, 2).astype(np.float32)


@pytest.mark.parametrize(("tokens", "experts", "top_k"), SHAPES)
def test_every_wave_has_the_bits_of_the_reference(
    machine: Machine, wave: int, tokens: int, experts: int, top_k: int
) -> None:
    logits = random_logits(tokens, experts)
    bias = random_logits(1, experts, 1)[0] / 10
    for sigmoid, normalised, used in product((False, True), (False, True), (None, bias)):
        options = {"sigmoid": sigmoid, "normalised": normalised, "scale": 2.5}
        ids, weights = route(machine, logits, top_k, wave, used, **options)
        expected_ids, expected_weights = reference.router_topk(logits, used, top_k, **options)
        assert np.array_equal(ids, expected_ids)
        assert np.array_equal(reference.bits(weights), reference.bits(expected_weights))


def test_it_agrees_with_float64() -> None:
    logits = random_logits(4, 128)
    ids, weights = reference.router_topk(logits, None, 8, sigmoid=False, normalised=True, scale=1.0)
    exact = np.exp(logits.astype(np.float64))
    for token in range(4):
        best = np.argsort(-exact[token], kind="stable")[:8]
        assert np.array_equal(ids[token], best)
        np.testing.assert_allclose(weights[token], exact[token][best] / exact[token][best].sum(), rtol=2e-6)


@pytest.mark.parametrize("experts", [48, 300])
def test_equal_logits_give_the_lowest_ids(machine: Machine, wave: int, experts: int) -> None:
    logits = np.zeros((2, experts), np.float32)
    logits[1, ::2] = -0.0
    ids, weights = route(machine, logits, 8, wave)
    assert ids.tolist() == [list(range(8))] * 2
    assert (weights == weights[0, 0]).all()
    assert abs(weights[0, 0] - 1 / 8) < 1e-7


@pytest.mark.parametrize("sigmoid", [False, True])
@pytest.mark.parametrize(
    ("odd", "first"),
    [
        ({3: np.nan}, None),
        ({5: np.inf, 9: np.inf}, [5, 9]),
        ({2: np.inf, 7: -np.inf, 9: np.nan}, [2]),
        (dict.fromkeys(range(16), np.nan), [0, 1, 2]),
        (dict.fromkeys(range(16), -np.inf), [0, 1, 2]),
        (dict.fromkeys(range(16), np.inf), [0, 1, 2]),
    ],
)
def test_logits_that_are_no_numbers_never_make_odd_ids_or_weights(
    machine: Machine, sigmoid: bool, odd: dict[int, float], first: list[int] | None
) -> None:
    logits = random_logits(1, 16)
    logits[0, list(odd)] = list(odd.values())
    routed = [route(machine, logits, 8, wave, sigmoid=sigmoid) for wave in WAVES]
    ids, weights = routed[0]
    assert len(set(ids[0].tolist())) == 8
    assert ((ids >= 0) & (ids < 16)).all()
    assert np.isfinite(weights).all() and (weights >= 0).all()
    assert first is None or ids[0, : len(first)].tolist() == first
    assert 3 not in ids or 3 not in odd or len(odd) == 16
    for other_ids, other_weights in routed[1:]:
        assert np.array_equal(ids, other_ids)
        assert np.array_equal(reference.bits(weights), reference.bits(other_weights))


def test_no_tokens_are_no_work(machine: Machine, wave: int) -> None:
    ids, weights = route(machine, np.zeros((0, 48), np.float32), 8, wave)
    assert ids.shape == weights.shape == (0, 8)


@pytest.mark.parametrize(("experts", "top_k"), [(8, 9), (8, 0), (0, 1), (5000, 8), (64, 33)])
def test_sizes_that_it_is_not_made_for_are_refused(machine: Machine, wave: int, experts: int, top_k: int) -> None:
    with pytest.raises(Refused, match="router_topk: "):
        route(machine, np.zeros((1, experts), np.float32), top_k, wave)
