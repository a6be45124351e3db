"""Logits of a pass: fetched when somebody looks, the best token of each row, rows in front of any that is no number."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from strata_runtime.layers.outcome import Outcome, Rows

LOGITS = torch.tensor([[1.0, 3.0, 3.0], [0.0, -1.0, 0.0], [2.0, 5.0, 4.0]])


def test_logits_are_fetched_once_and_only_when_somebody_looks() -> None:
    calls: list[None] = []

    def fetch() -> torch.Tensor:
        calls.append(None)
        return LOGITS

    outcome = Outcome(float(LOGITS.sum()), fetch, [7, 8, 9])
    rows = Rows(outcome, 1, 2)
    assert [rows.best(0), rows.best(1)] == [8, 9]
    assert outcome.finite_rows(0, 3) == 3
    assert not calls
    assert np.array_equal(rows.row(1), LOGITS[2].numpy()) and np.array_equal(rows.row(0), LOGITS[1].numpy())
    assert len(calls) == 1


def test_the_best_of_equal_tokens_is_the_lowest() -> None:
    outcome = Outcome.on_cpu(LOGITS)
    assert [outcome.best(row) for row in range(3)] == [1, 0, 1]


@pytest.mark.parametrize(("bad", "expected"), [(0, (0, 2)), (1, (1, 2)), (2, (2, 0)), (3, (2, 1))])
def test_rows_are_finite_up_to_the_first_that_is_not(bad: int, expected: tuple[int, int]) -> None:
    logits = torch.zeros(4, 3)
    logits[bad, 1] = math.nan if bad % 2 else -math.inf
    outcome = Outcome.on_cpu(logits)
    assert (outcome.finite_rows(0, 2), outcome.finite_rows(2, 4)) == expected


def test_a_sum_that_overflows_says_nothing_of_the_rows() -> None:
    outcome = Outcome.on_cpu(torch.full((2, 4), 3e38))
    assert not math.isfinite(outcome.total)
    assert outcome.finite_rows(0, 2) == 2
