"""YAML 1.2 core scalars, minus the ones that read two ways.

Numbers keep the text they were written with, so that a field of text type sees `8.10` and not `8.1`.
"""

from __future__ import annotations

import re


class WrittenInt(int):
    """An int that remembers its source text in `raw`."""

    raw: str

    def __new__(cls, value: int, raw: str) -> WrittenInt:
        self = super().__new__(cls, value)
        self.raw = raw
        return self


class WrittenFloat(float):
    """A float that remembers its source text in `raw`."""

    raw: str

    def __new__(cls, value: float, raw: str) -> WrittenFloat:
        self = super().__new__(cls, value)
        self.raw = raw
        return self


class AmbiguousScalar(ValueError):
    """A plain scalar that YAML 1.1 and 1.2 read differently in a way that changes a number."""


Scalar = None | bool | int | float | str

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")


def resolve_plain(text: str) -> Scalar:
    """Return the value of a plain (unquoted) scalar. Raises `AmbiguousScalar` for numbers with leading zeros."""
    if _NULL.fullmatch(text):
        return None
    if match := _BOOL.fullmatch(text):
        return match.group(1) is not None
    if _LEADING_ZERO.fullmatch(text):
        raise AmbiguousScalar(f"'{text}' is octal to some readers and decimal to others: drop the zeros or quote it")
    if _INT.fullmatch(text):
        return WrittenInt(int(text), text)
    if _OCTAL.fullmatch(text):
        return WrittenInt(int(text[2:], 8), text)
    if _HEX.fullmatch(text):
        return WrittenInt(int(text[2:], 16), text)
    if _FLOAT.fullmatch(text):
        return WrittenFloat(float(text), text)
    if text.lower() in _SPECIAL:
        return WrittenFloat(float(_SPECIAL[text.lower()]), text)
    return text
