"""Which compiler releases may build a target."""

from __future__ import annotations

import pytest

from strata_gen.model.target import Compiler, CompilerFamily, DeniedRange, parse_version

COMPILER = Compiler(
    CompilerFamily.NVCC, (13, 0), (13, 4), (DeniedRange((13, 2, 51), (13, 2, 78), "it computes nonsense"),)
)


@pytest.mark.parametrize("release", ["13.0", "13.0.0", "13.0.88", "13.2.50", "13.2.79", "13.4", "13.4.99"])
def test_releases_within_the_limits_are_accepted(release: str) -> None:
    assert COMPILER.refusal(parse_version(release)) is None


@pytest.mark.parametrize(
    ("release", "reason"),
    [
        ("12.9.99", "nvcc 12.9.99 is too old: 13.0 or newer is needed"),
        ("13.5", "nvcc 13.5 is too new: 13.4 is the newest that is supported"),
        ("13.2.51", "nvcc 13.2.51 must not be used: it computes nonsense"),
        ("13.2.78", "nvcc 13.2.78 must not be used: it computes nonsense"),
    ],
)
def test_other_releases_are_refused_with_the_reason(release: str, reason: str) -> None:
    assert COMPILER.refusal(parse_version(release)) == reason


def test_the_end_of_a_refused_range_holds_to_its_own_precision() -> None:
    compiler = Compiler(CompilerFamily.NVCC, (13,), None, (DeniedRange((13, 1), (13, 2), "it computes nonsense"),))
    assert compiler.refusal((13, 2, 99)) == "nvcc 13.2.99 must not be used: it computes nonsense"
    assert compiler.refusal((13, 3)) is None


def test_without_a_maximum_every_newer_release_is_accepted() -> None:
    assert Compiler(CompilerFamily.GCC, (11,), None, ()).refusal((99, 1)) is None


def test_versions_compare_as_numbers_not_as_text() -> None:
    assert Compiler(CompilerFamily.GCC, (9,), None, ()).refusal((10, 2)) is None
