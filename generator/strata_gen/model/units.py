"""Quantities as users write them: `512MiB`, `2GB`, `250ms`, and the whole numbers of bytes or nanoseconds they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction

BYTE_UNITS: Mapping[str, int] = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
"""Unit to bytes."""

DURATION_UNITS: Mapping[str, int] = {
    "ns": 1,
    "us": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "min": 60 * 10**9,
    "h": 3600 * 10**9,
}
"""Unit to nanoseconds."""

_QUANTITY = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)([A-Za-z]+)?")


def _parse(text: str, units: Mapping[str, int], base: str, example: str) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"'{text}' is not a number with a unit, such as {example}")
    number, unit = match.group(1), match.group(2) or base
    if unit not in units:
        raise ValueError(f"'{unit}' is not a unit here: use {', '.join(units)}")
    exact = Fraction(number) * units[unit]
    if exact.denominator != 1:
        raise ValueError(f"'{text}' is not a whole number of {base}")
    return int(exact)


def parse_bytes(text: str) -> int:
    """Read `512MiB`, `2GB` or `4096` as bytes. Raises ValueError with a message for the user."""
    return _parse(text, BYTE_UNITS, "B", "512MiB")


def parse_duration(text: str) -> int:
    """Read `250ms`, `2s` or `0` as nanoseconds. Raises ValueError with a message for the user."""
    if re.fullmatch(r"-?[0-9.]+", text.strip()) and text.strip() != "0":
        raise ValueError(f"'{text}' needs a unit: {', '.join(DURATION_UNITS)}")
    return _parse(text, DURATION_UNITS, "ns", "250ms")


def _show(value: int, units: Mapping[str, int]) -> str:
    if value == 0:
        return "0"
    exact = [(size, unit) for unit, size in units.items() if value % size == 0]
    size, unit = max(exact)
    return f"{value // size}{unit}"


def show_bytes(value: int) -> str:
    """Write bytes with the largest unit that keeps a whole number, e.g. `512MiB`; `parse_bytes` reads it back."""
    return _show(value, BYTE_UNITS)


def show_duration(value: int) -> str:
    """Write nanoseconds with the largest unit that keeps a whole number; `parse_duration` reads it back."""
    return _show(value, DURATION_UNITS)
