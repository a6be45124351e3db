"""Sampling values: what is accepted, and what is refused with a message that names the value."""

import math

import pytest

from strata_runtime.errors import UserError
from strata_runtime.sampling import SamplingParams

REFUSED = [
    ("temperature", math.nan),
    ("temperature", math.inf),
    ("temperature", -0.1),
    ("temperature", 100.5),
    ("temperature", 10**400),
    ("temperature", "1"),
    ("temperature", None),
    ("temperature", True),
    ("top_k", -1),
    ("top_k", 1.5),
    ("top_k", "40"),
    ("top_k", True),
    ("top_p", 0),
    ("top_p", 0.0),
    ("top_p", -0.5),
    ("top_p", 1.01),
    ("top_p", math.nan),
    ("min_p", -0.1),
    ("min_p", 1.1),
    ("min_p", math.nan),
    ("repetition_penalty", 0),
    ("repetition_penalty", -1),
    ("repetition_penalty", 1e-320),
    ("repetition_penalty", 0.009),
    ("repetition_penalty", 101),
    ("repetition_penalty", math.inf),
    ("seed", -1),
    ("seed", 2**64),
    ("seed", 1.0),
    ("seed", "1"),
]


@pytest.mark.parametrize(("name", "value"), REFUSED, ids=lambda value: str(value)[:12])
def test_a_value_out_of_range_is_refused_with_its_name_and_rule(name, value):
    with pytest.raises(UserError, match=rf"^{name} must be .*, not ") as caught:
        SamplingParams(**{name: value})
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize(
    "values",
    [
        {"temperature": 0},
        {"temperature": 1e-300},
        {"temperature": 100},
        {"top_k": 10**30},
        {"top_p": 1e-9},
        {"top_p": 1},
        {"min_p": 1},
        {"repetition_penalty": 0.01},
        {"repetition_penalty": 100},
        {"seed": 2**64 - 1},
    ],
)
def test_values_at_the_edges_are_accepted(values):
    SamplingParams(**values)
