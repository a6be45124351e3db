"""Bytes in words."""

import pytest

from strata_runtime.sizes import size


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (29_360_128, "28.0 MiB"),
        ((1 << 30) - 1, "1024.0 MiB"),
        (1 << 30, "1.0 GiB"),
        (5 << 50, "5120.0 TiB"),
    ],
)
def test_the_largest_unit_that_leaves_a_one_before_the_point(count, text):
    assert size(count) == text
