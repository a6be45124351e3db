"""The measured width, on machines whose times are made up."""

import random
from types import SimpleNamespace
from typing import Any

import pytest

from strata_runtime.drafts.choice import make_width
from strata_runtime.drafts.width import MeasuredWidth
from strata_runtime.errors import UserError


def run(cost, right, windows=400, offered=8, seed=0):
    """Widths of windows that take `cost(width)` seconds and whose drafts are right with the chance `right(place)`."""
    chance = random.Random(seed)
    width, chosen = MeasuredWidth(8), []
    for _ in range(windows):
        tokens = min(width.choose(), offered)
        kept = 0
        while kept < tokens - 1 and chance.random() < right(kept):
            kept += 1
        width.record(tokens, kept, cost(tokens))
        chosen.append(tokens)
    return chosen


def usual(chosen):
    return max(set(chosen[100:]), key=chosen[100:].count)


def best(cost, right):
    def rate(width):
        total = chance = 1.0
        for place in range(width - 1):
            chance *= right(place)
            total += chance
        return total / cost(width)

    return max(range(1, 9), key=rate)


def test_free_and_right_drafts_are_taken_in_full():
    assert usual(run(lambda _: 1.0, lambda _: 1.0)) == 8


def test_drafts_that_are_never_right_are_not_made():
    chosen = run(lambda width: 1 + 0.1 * width, lambda _: 0.0)
    assert usual(chosen) == 1
    assert chosen[100:].count(1) > 0.9 * len(chosen[100:])


@pytest.mark.parametrize(("share", "right"), [(0.1, 0.8), (0.3, 0.7), (0.5, 0.9), (0.05, 0.5)])
def test_the_width_is_near_the_one_with_the_most_tokens_per_second(share, right):
    def cost(width):
        return 1 + share * (width - 1)

    assert abs(usual(run(cost, lambda _: right)) - best(cost, lambda _: right)) <= 1


def test_a_step_in_cost_is_found():
    """As of kernels that take four tokens in one pass and need a second one for the fifth."""
    assert usual(run(lambda width: 1.0 if width <= 4 else 3.0, lambda _: 0.9)) == 4


def test_it_follows_a_text_that_changes():
    width = MeasuredWidth(8)

    def feed(right, windows):
        widths = []
        for _ in range(windows):
            tokens = width.choose()
            width.record(tokens, tokens - 1 if right else 0, 1 + 0.2 * tokens)
            widths.append(tokens)
        return widths

    assert usual(feed(True, 300)) == 8
    assert usual(feed(False, 300)) == 1
    assert usual(feed(True, 900)[600:]) == 8


def test_one_slow_run_decides_nothing():
    width = MeasuredWidth(8)
    for at in range(300):
        tokens = width.choose()
        width.record(tokens, tokens - 1, 50.0 if at % 40 == 0 else 1.0)
    assert width.best() == 8


def test_a_drafter_that_offers_fewer_drafts_teaches_what_it_can():
    assert set(run(lambda width: 1.0 + width, lambda _: 0.9, offered=2)) <= {1, 2}


@pytest.mark.parametrize("most", [1, 2, 3, 8])
def test_no_window_is_wider_than_the_kernels_take(most: int) -> None:
    width = MeasuredWidth(most)
    chosen = set()
    for _ in range(400):
        tokens = width.choose()
        chosen.add(tokens)
        width.record(tokens, tokens - 1, 1.0)  # all drafts are right, and time does not grow: the widest is best
    assert max(chosen) == most
    assert len(width.expected()) == most


def test_a_width_that_the_package_was_not_built_for() -> None:
    settings: Any = SimpleNamespace(window=SimpleNamespace(draft="ngram", width=5, max_tokens=4))
    with pytest.raises(
        UserError, match=r"window.width is 5, .* at most 4 tokens: rebuild it with --set window.max_tok"
    ):
        make_width(settings)
