"""YAML 1.2 core scalars, minus the ones that read two ways.

Numbers keep the text they were written with, so that a field of text type sees `8.10` and not `8.1`.
"""

from __future__ import annotations

import re


class WrittenInt(int):
    """An int that remembers its source text in `raw`, and prints as it."""

    raw: str

    def __new__(cls, value: int, raw: str) -> WrittenInt:
        """Make the int `value`, written as `raw`."""
        self = super().__new__(cls, value)
        self.raw = raw
        return self

    def __str__(self) -> str:
        return self.raw


class WrittenFloat(float):
    """A float that remembers its source text in `raw`, and prints as it."""

    raw: str

    def __new__(cls, value: float, raw: str) -> WrittenFloat:
        """Make the float `value`, written as `raw`."""
        self = super().__new__(cls, value)
        self.raw = raw
        return self

    def __str__(self) -> str:
        return self.raw


class AmbiguousScalar(ValueError):
    """A plain scalar that looks like a number and is none that every reader agrees on.

    `best` is what to go on with, so that one mistake is reported once.
    """

    def __init__(self, message: str, best: WrittenInt) -> None:
        self.best = best
        super().__init__(message)


Scalar = None | bool | int | float | str

_NULL = re.compile(r"null|Null|NULL|~|")
_BOOL = re.compile(r"(true|True|TRUE)|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+")
_OCTAL = re.compile(r"0o[0-7]+")
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_LONGEST_NUMBER = 100  # characters; Python itself refuses to read numbers of some thousand digits
_LEADING_ZERO = re.compile(r"[-+]?0[0-9]+")


def resolve_plain(text: str) -> Scalar:
    """Return the value of a plain (unquoted) scalar. Raises `AmbiguousScalar` for numbers with leading zeros.

    A number of more than 100 characters is refused too.
    """
    if _NULL.fullmatch(text):
        return None
    if match := _BOOL.fullmatch(text):
        return match.group(1) is not None
    if len(text) > _LONGEST_NUMBER and (_INT.fullmatch(text) or _HEX.fullmatch(text) or _FLOAT.fullmatch(text)):
        raise AmbiguousScalar(f"a number of {len(text)} characters: quote it if it is text", WrittenInt(0, text))
    if _LEADING_ZERO.fullmatch(text):
        why = f"'{text}' is octal to some readers and decimal to others: drop the zeros or quote it"
        raise AmbiguousScalar(why, WrittenInt(int(text), text))
    if _INT.fullmatch(text):
        return WrittenInt(int(text), text)
    if _OCTAL.fullmatch(text) or _HEX.fullmatch(text):
        return WrittenInt(int(text, 0), text)
    if _FLOAT.fullmatch(text):
        return WrittenFloat(float(text), text)
    if _SPECIAL.fullmatch(text):
        return WrittenFloat(float(text.replace(".", "")), text)
    return text
