"""Formats by name, by default, and for rows that blocks do not divide."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from strata_runtime.convert.choice import Formats, choose_formats
from strata_runtime.errors import UserError
from strata_runtime.formats import FormatInfo


def form(name: str, elements: int, size: int, *, encodes: bool = True, in_gguf: bool = True) -> FormatInfo:
    return FormatInfo(name, "", "", elements, size, encodes=encodes, gguf=name.upper() if in_gguf else None)


KNOWN = (
    form("bf16", 1, 2),
    form("f16", 1, 2),
    form("f32", 1, 4),
    form("iq3_s", 256, 110),
    form("mxfp4", 32, 17),
    form("own", 32, 20, in_gguf=False),
    form("q4_0", 32, 18),
    form("q4_k", 256, 144),
    form("q5_0", 32, 22),
    form("q6_k", 256, 210),
    form("q8_0", 32, 34),
    form("x2", 32, 9, encodes=False),
)


def names(chosen: Formats) -> Sequence[str]:
    return chosen.experts.name, chosen.dense.name, chosen.vocabulary.name


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("q4_k",), ("q4_k", "q8_0", "q8_0")),
        (("Q4_K",), ("q4_k", "q8_0", "q8_0")),
        (("q8_0",), ("q8_0", "q8_0", "q8_0")),
        (("f16",), ("f16", "f16", "f16")),
        (("iq3_s", "q6_k"), ("iq3_s", "q6_k", "q6_k")),
        (("q4_0", None, "bf16"), ("q4_0", "q8_0", "bf16")),
    ],
)
def test_what_is_not_given_suits_the_experts(given: tuple[str, ...], expected: tuple[str, ...]) -> None:
    assert names(choose_formats(KNOWN, *given)) == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (("q4k",), "there is no format 'q4k', wanted for experts; .*; did you mean 'q4_k'?"),
        (("f32", "bf61"), "there is no format 'bf61', wanted for dense; .*; did you mean 'bf16'?"),
        (("f32", None, ""), "there is no format '', wanted for vocabulary; what can be made: bf16, f16, f32, iq3_s"),
        (("x2",), "format x2 of experts can be read and not be made; what can be: bf16, f16"),
        (("own",), "format own of experts can be read and not be made"),
    ],
)
def test_a_format_that_cannot_be_made_is_refused(given: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        choose_formats(KNOWN, *given)


@pytest.mark.parametrize(
    ("wanted", "columns", "expected"),
    [
        ("q4_k", 512, "q4_k"),
        ("q4_k", 32, "q5_0"),
        ("q6_k", 96, "q8_0"),
        ("iq3_s", 96, "q4_0"),
        ("q4_0", 48, "bf16"),
        ("q8_0", 1, "bf16"),
        ("f16", 3, "f16"),
    ],
)
def test_rows_that_blocks_do_not_divide_get_the_next_larger_format(wanted: str, columns: int, expected: str) -> None:
    chosen = choose_formats(KNOWN, wanted)
    assert chosen.fitting(chosen.experts, columns).name == expected


@pytest.mark.parametrize(
    ("role", "rank", "expected"),
    [
        ("expert_down", 2, "q4_k"),
        ("attn_q", 2, "q6_k"),
        ("shared_up", 2, "q6_k"),
        ("mtp_projection", 2, "q6_k"),
        ("embedding", 2, "q8_0"),
        ("head", 2, "q8_0"),
        ("mtp_head", 2, "q8_0"),
        ("router", 2, "f32"),
        ("attn_norm", 1, "f32"),
        ("attn_q_bias", 1, "f32"),
    ],
)
def test_each_kind_of_tensor_has_its_format(role: str, rank: int, expected: str) -> None:
    assert choose_formats(KNOWN, "q4_k", "q6_k", "q8_0").wanted(role, rank).name == expected
