"""Draws: the stated distribution, keyed by (seed, position) and nothing else."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_runtime.errors import UserError
from strata_runtime.sampling import CounterUniform, Sampler, SamplingParams, log_softmax

LOGITS = np.array([1.0, 3.0, -2.0, 3.0, 0.5, 2.0], dtype=np.float32)


def draw_all(logits, params, count, seen=()):
    sampler = Sampler(params, len(logits), seen)
    return [sampler.draw(logits, position) for position in range(count)]


def reference(logits, temperature, top_k=0, top_p=1.0, min_p=0.0):
    """The final distribution, spelled out over Python floats: {id: probability}."""
    order = sorted(range(len(logits)), key=lambda i: (-logits[i], i))
    weights = {i: math.exp((float(logits[i]) - float(max(logits))) / temperature) for i in order}
    kept = order[:top_k] if top_k else order
    total = sum(weights[i] for i in kept)
    reached, short = 0.0, []
    for i in kept:
        if reached >= top_p * total:
            break
        short.append(i)
        reached += weights[i]
    short = [i for i in short if weights[i] >= min_p * weights[order[0]]]
    total = sum(weights[i] for i in short)
    return {i: weights[i] / total for i in short}


def test_temperature_zero_takes_the_best_token_and_the_lowest_id_among_equals():
    assert draw_all(LOGITS, SamplingParams(temperature=0), 3) == [1, 1, 1]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"temperature": 0.3},
        {"temperature": 5.0},
        {"top_k": 3},
        {"top_k": 2},
        {"top_p": 0.5},
        {"top_p": 0.85},
        {"min_p": 0.2},
        {"top_k": 4, "top_p": 0.9, "min_p": 0.05, "temperature": 1.7},
    ],
    ids=str,
)
def test_draws_follow_the_stated_distribution(options):
    """Chi-square over 8,000 draws, at a bound that a right sampler passes with probability 1 - 1e-6."""
    count = 8_000
    expected = reference(LOGITS, **{"temperature": 1.0, **options})
    drawn = np.bincount(draw_all(LOGITS, SamplingParams(seed=11, **options), count), minlength=len(LOGITS))
    assert set(np.flatnonzero(drawn)) <= set(expected)
    chi_square = sum((drawn[i] - count * p) ** 2 / (count * p) for i, p in expected.items())
    bound = {0: 0.1, 1: 24, 2: 28, 3: 31, 4: 34, 5: 36}[len(expected) - 1]
    assert chi_square < bound


def test_the_distribution_equals_the_reference():
    options = {"temperature": 0.7, "top_k": 5, "top_p": 0.95, "min_p": 0.01}
    found = Sampler(SamplingParams(**options), len(LOGITS)).distribution(LOGITS)
    expected = reference(LOGITS, **options)
    assert list(found.ids) == list(expected)
    assert found.probabilities == pytest.approx(list(expected.values()))


def test_equal_seeds_draw_equal_tokens_and_other_seeds_do_not():
    first = draw_all(LOGITS, SamplingParams(seed=5), 200)
    assert first == draw_all(LOGITS, SamplingParams(seed=5), 200)
    assert first != draw_all(LOGITS, SamplingParams(seed=6), 200)


def test_a_draw_depends_on_its_position_and_not_on_the_draws_before_it():
    sampler = Sampler(SamplingParams(seed=5), len(LOGITS))
    in_order = [sampler.draw(LOGITS, position) for position in range(50)]
    backwards = [sampler.draw(LOGITS, position) for position in reversed(range(50))]
    assert backwards == in_order[::-1]


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**40))
@settings(max_examples=50, deadline=None)
def test_uniform_numbers_are_those_of_philox_by_key_and_counter(seed, position):
    expected = (int(np.random.Philox(key=seed, counter=position).random_raw()) >> 11) * 2.0**-53
    assert CounterUniform(seed).at(position) == expected


def test_without_a_seed_each_sampler_draws_its_own_and_reports_it():
    seeds = {Sampler(SamplingParams(), 4).seed for _ in range(8)}
    assert len(seeds) > 1
    sampler = Sampler(SamplingParams(), len(LOGITS))
    again = SamplingParams(seed=sampler.seed)
    assert [sampler.draw(LOGITS, p) for p in range(20)] == draw_all(LOGITS, again, 20)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_sorting_only_a_part_of_the_vocabulary_never_changes_a_draw(data):
    """Vocabularies beyond the first candidates, with many ties, against the inverse of the whole distribution."""
    seed = data.draw(st.integers(0, 1000))
    random = np.random.default_rng(seed)
    size = data.draw(st.sampled_from([200, 257, 3000]))
    logits = np.round(random.normal(size=size) * data.draw(st.sampled_from([0.0, 0.5, 3.0])), 1).astype(np.float32)
    params = SamplingParams(
        seed=seed,
        top_k=data.draw(st.sampled_from([0, 1, 7, 300, 10**6])),
        top_p=data.draw(st.sampled_from([1.0, 0.9, 0.999999, 0.1])),
        min_p=data.draw(st.sampled_from([0.0, 0.001, 0.3])),
    )
    sampler = Sampler(params, size)
    whole = sampler.distribution(logits)
    for position in range(5):
        uniform = CounterUniform(seed).at(position)
        index = int(np.searchsorted(np.cumsum(whole.probabilities), uniform, side="right"))
        assert sampler.draw(logits, position) == whole.ids[min(index, len(whole.ids) - 1)]


def test_top_k_beyond_the_vocabulary_keeps_everything():
    assert draw_all(LOGITS, SamplingParams(seed=3, top_k=10**9), 300) == draw_all(LOGITS, SamplingParams(seed=3), 300)


def test_a_tiny_temperature_draws_like_a_choice_among_the_best():
    assert set(draw_all(LOGITS, SamplingParams(seed=3, temperature=1e-300), 100)) == {1, 3}


def test_the_repetition_penalty_divides_positive_and_multiplies_negative_logits():
    """Token 1 (3.0) becomes 3 / 2, token 2 (-2.0) becomes -4, the others stay."""
    sampler = Sampler(SamplingParams(temperature=1.0, repetition_penalty=2.0), len(LOGITS), seen=[1, 2])
    found = dict(zip(*[list(x) for x in _columns(sampler.distribution(LOGITS))], strict=True))
    expected = reference(np.array([1.0, 1.5, -4.0, 3.0, 0.5, 2.0]), 1.0)
    assert found == pytest.approx(expected)


def _columns(distribution):
    return distribution.ids.tolist(), distribution.probabilities.tolist()


def test_the_penalty_sees_the_prompt_and_every_accepted_token_once():
    sampler = Sampler(SamplingParams(temperature=0, repetition_penalty=2.0), len(LOGITS), seen=[1, 1])
    assert sampler.draw(LOGITS, 0) == 3
    sampler.accept(3)
    sampler.accept(3)
    assert sampler.draw(LOGITS, 1) == 5  # 2.0 beats 3.0 / 2 = 1.5


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("params", [SamplingParams(temperature=0), SamplingParams(), SamplingParams(top_k=2)])
def test_logits_that_are_not_finite_stop_with_an_error(value, params):
    logits = LOGITS.copy()
    logits[4] = value
    with pytest.raises(UserError, match="position 7 is not finite"):
        Sampler(params, len(logits)).draw(logits, 7)


def test_top_p_keeps_no_more_than_what_reaches_it_exactly():
    """Four equal tokens: two of them are half of the mass, and a third would be more than asked for."""
    sampler = Sampler(SamplingParams(top_p=0.5), 4)
    logits = np.zeros(4, dtype=np.float32)
    assert sampler.distribution(logits).ids.tolist() == [0, 1]
    assert {sampler.draw(logits, position) for position in range(100)} == {0, 1}


def test_drawing_does_not_change_the_logits():
    logits = LOGITS.copy()
    Sampler(SamplingParams(repetition_penalty=3.0, top_p=0.5), len(logits), seen=[1, 3]).draw(logits, 0)
    assert (logits == LOGITS).all()


def test_log_probabilities_sum_to_one_over_the_vocabulary():
    logits = (np.random.default_rng(0).normal(size=(3, 5000)) * 20).astype(np.float32)
    assert np.exp(log_softmax(logits).astype(np.float64)).sum(axis=-1) == pytest.approx(np.ones(3), abs=1e-5)
