"""Codes of kernels."""

from __future__ import annotations

from strata_gen.codes.explanation import Explanation

CODES: tuple[Explanation, ...] = ()
