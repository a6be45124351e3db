"""The expert cap: its contract, on every wave."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray

from support import device_reference as reference
from support.device import Machine, Refused

Ids = NDArray[np.int32]
Floats = NDArray[np.float32]
EXPERTS, TOP_K = 256, 10


def window(tokens: int, top_k: int = TOP_K, seed: int = 0) -> tuple[Ids, Floats]:
    """Random routes whose weights fall with the pick; some weights are equal."""
    generator = np.random.default_rng(seed)
    ids = np.stack([generator.permutation(EXPERTS)[:top_k] for _ in range(tokens)]).astype(np.int32)
    weights = np.sort(generator.integers(1, 40, (tokens, top_k)) / 40, axis=1)[:, ::-1]
    return ids, np.ascontiguousarray(weights, dtype=np.float32)


def cap(machine: Machine, wave: int, ids: Ids, weights: Floats, limit: int, seed: int = 0) -> tuple[Ids, Floats]:
    done = machine.run("ecap_redirect", [*ids.shape, limit], [ids, weights], wave, seed)
    return done[0], done[1]


@pytest.mark.parametrize(("tokens", "limit"), list(product((2, 3, 4, 6), (11, 16, 20, 26))))
def test_the_contract(machine: Machine, wave: int, tokens: int, limit: int) -> None:
    ids, weights = window(tokens)
    new_ids, new_weights = cap(machine, wave, ids, weights, limit)
    if limit >= tokens * TOP_K:
        assert np.array_equal(new_ids, ids) and np.array_equal(new_weights, weights)
        return
    assert np.array_equal(new_ids[0], ids[0]) and np.array_equal(new_weights[0], weights[0])

    tail = range(TOP_K, tokens * TOP_K)
    ranked = sorted(tail, key=lambda entry: (-weights.flat[entry], entry))
    kept = [*range(TOP_K), *ranked[: limit - TOP_K]]
    assert all(new_ids.flat[entry] == ids.flat[entry] for entry in kept)
    assert all(new_weights.flat[entry] == weights.flat[entry] for entry in kept)
    kept_ids = {int(ids.flat[entry]) for entry in kept}
    dropped = [entry for entry in tail if entry not in kept]
    assert len(dropped) == tokens * TOP_K - limit
    assert all(new_weights.flat[entry] == 0.0 and int(new_ids.flat[entry]) in kept_ids for entry in dropped)

    again_ids, again_weights = cap(machine, wave, ids, weights, limit, seed=1)
    assert np.array_equal(new_ids, again_ids) and np.array_equal(new_weights, again_weights)


@pytest.mark.parametrize(("tokens", "limit"), list(product((2, 4, 6, 8), (1, 10, 11, 26, 59))))
def test_every_wave_does_what_the_reference_does(machine: Machine, wave: int, tokens: int, limit: int) -> None:
    for top_k in (1, 8, 10, 16):
        ids, weights = window(tokens, top_k, seed=limit)
        expected = reference.ecap_redirect(ids, weights, limit)
        for new, wanted in zip(cap(machine, wave, ids, weights, limit), expected, strict=True):
            assert np.array_equal(reference.bits(new), reference.bits(wanted))


def test_one_token_is_never_touched(machine: Machine, wave: int) -> None:
    ids, weights = window(1)
    new_ids, new_weights = cap(machine, wave, ids, weights, 1)
    assert np.array_equal(new_ids, ids) and np.array_equal(new_weights, weights)


def test_a_cap_of_at_most_the_picks_keeps_no_entry_of_the_tail(machine: Machine, wave: int) -> None:
    ids, weights = window(4)
    new_ids, new_weights = cap(machine, wave, ids, weights, TOP_K)
    assert (new_weights[1:] == 0).all()
    assert set(new_ids[1:].flat) <= set(ids[0])


def test_dropped_entries_go_round(machine: Machine, wave: int) -> None:
    ids, weights = window(6)
    new_ids, new_weights = cap(machine, wave, ids, weights, 12)
    dropped = new_ids.reshape(-1)[(new_weights == 0).reshape(-1)]
    counts = np.unique(dropped, return_counts=True)[1]
    assert counts.max() - counts.min() <= 1


def test_what_is_no_entry_stays_so(machine: Machine, wave: int) -> None:
    ids, weights = window(3, 4)
    ids[0, 2] = ids[1, 0] = ids[2, 3] = -1
    weights[2, 2] = np.nan
    expected = reference.ecap_redirect(ids, weights, 5)
    new_ids, new_weights = cap(machine, wave, ids, weights, 5)
    assert np.array_equal(new_ids, expected[0])
    assert np.array_equal(reference.bits(new_weights), reference.bits(expected[1]))
    assert new_ids[1, 0] == new_ids[2, 3] == -1
    nothing = np.full((3, 4), -1, np.int32)
    assert np.array_equal(cap(machine, wave, nothing, weights, 5)[0], nothing)


@pytest.mark.parametrize("shape", [(9, 10), (2, 17)])
def test_windows_that_it_is_not_made_for_are_refused(machine: Machine, wave: int, shape: tuple[int, int]) -> None:
    with pytest.raises(Refused, match="window"):
        cap(machine, wave, np.zeros(shape, np.int32), np.zeros(shape, np.float32), 5)


def test_a_cap_below_one_is_refused(machine: Machine, wave: int) -> None:
    with pytest.raises(Refused, match="at least 1"):
        cap(machine, wave, *window(2), 0)
