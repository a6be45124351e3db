"""The arithmetic of family specs: sums of products over config keys, and conditions on one bool key."""

from __future__ import annotations

import re

from strata_gen.model.family import Condition, Formula, Term

_FACTOR = re.compile(r"[a-z][a-z0-9_]*|[0-9]+")


def parse_formula(text: str) -> Formula:
    """Parse a sum of products of config keys and whole numbers. Raises `ValueError` naming the part that is neither."""
    terms = []
    for product in text.split("+"):
        number, keys = 1, []
        for factor in (part.strip() for part in product.split("*")):
            if not _FACTOR.fullmatch(factor):
                raise ValueError(f"'{factor}' is neither a config key nor a whole number")
            if factor.isdigit():
                number *= int(factor)
            else:
                keys.append(factor)
        terms.append(Term(number, tuple(keys)))
    return Formula(tuple(terms))


def parse_condition(text: str) -> Condition:
    """Parse `key` or `not key`."""
    return Condition(text.removeprefix("not "), not text.startswith("not "))
