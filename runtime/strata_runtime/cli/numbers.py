"""Lists of whole numbers as one option."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

NONE = "none"
_PIECE = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?")
_MOST_NUMBERS = 1000


class NumberList(click.ParamType[tuple[int, ...]]):
    """`1,2`, `1-8` or both with commas between, in the given order and each once; `none` is an empty list."""

    name = "numbers"

    def __init__(self, least: int, most: int | None = None, *, may_be_empty: bool = False) -> None:
        """`least` and `most` bound every number."""
        self._least, self._most, self._may_be_empty = least, most, may_be_empty

    def convert(
        self, value: str | tuple[int, ...], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers. Fails with what is wrong with which piece."""
        if isinstance(value, tuple):
            return value
        if self._may_be_empty and value.strip().lower() == NONE:
            return ()
        try:
            return tuple(dict.fromkeys(number for piece in value.split(",") for number in self._numbers(piece.strip())))
        except ValueError as problem:
            self.fail(str(problem), param, ctx)

    def _numbers(self, piece: str) -> Iterator[int]:
        match = _PIECE.fullmatch(piece)
        if match is None:
            empty = f", or '{NONE}'" if self._may_be_empty else ""
            raise ValueError(f"{piece!r:.40} is no whole number and no range; give such as 1,4 or 1-8{empty}")
        first = int(match[1])
        last = first if match[2] is None else int(match[2])
        if last < first:
            raise ValueError(f"the range {piece} ends before it begins")
        if first < self._least or (self._most is not None and last > self._most):
            bounds = f"from {self._least} to {self._most}" if self._most is not None else f"at least {self._least}"
            raise ValueError(f"{piece} is out of range: numbers must be {bounds}")
        if last - first >= _MOST_NUMBERS:
            raise ValueError(f"the range {piece} has more than {_MOST_NUMBERS} numbers")
        yield from range(first, last + 1)
