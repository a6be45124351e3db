"""Keeps the text of users apart from the control tokens of a chat template.

A template mixes control tokens (`<|user|>`) with what people wrote, in one string. Were that string simply tokenised,
a message that spells a control token would become one. So wherever a message spells one, a private-use character stands
in for it while the template renders; the tokenizer then finds the template's own control tokens, and the marked ones
are put back as plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TypeVar

_PRIVATE_USE = (range(0xE000, 0xF900), range(0xF0000, 0xFFFFE), range(0x100000, 0x10FFFE))

_Value = TypeVar("_Value")


def texts(value: object) -> Iterator[str]:
    """Yield every text inside nested lists and mappings; keys are structure, not text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts(item)


class Protection:
    """Marks that stand in for control tokens inside the texts of one conversation.

    `control_tokens`: their texts. `around`: every text that must not hold a mark already.
    """

    def __init__(self, control_tokens: Iterable[str], around: Iterable[str]) -> None:
        self._control_tokens = sorted(filter(None, control_tokens), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, self._control_tokens)) or "(?!)")
        taken = frozenset(chain.from_iterable(around))
        self._free = (mark for mark in map(chr, chain(*_PRIVATE_USE)) if mark not in taken)
        self._marks: dict[str, str] = {}

    def hide(self, value: _Value) -> _Value:
        """Return `value` with marks in every text inside it (nested lists and dicts of JSON)."""
        hidden: object = value
        if isinstance(value, str):
            hidden = self._hide_text(value)
        elif isinstance(value, dict):
            hidden = {key: self.hide(item) for key, item in value.items()}
        elif isinstance(value, list | tuple):
            hidden = [self.hide(item) for item in value]
        return hidden  # type: ignore[return-value]

    def segments(self, rendered: str) -> Iterator[tuple[str, bool]]:
        """Cut a rendered text into (text, is_plain): control tokens count in the parts that are not plain."""
        if not self._marks:
            yield rendered, False
            return
        start = end = 0
        for border in chain((match.span() for match in self._pattern.finditer(rendered)), [(len(rendered),) * 2]):
            between = rendered[end : border[0]]
            if any(mark in between for mark in self._marks.values()):
                yield rendered[start:end], False
                yield self._reveal(between), True
                start = border[0]
            end = border[1]
        yield rendered[start:], False

    def _hide_text(self, text: str) -> str:
        text = self._pattern.sub(lambda match: self._mark(match[0]), text)
        # A token that begins in one text and ends in the next would be found where the two meet.
        head = len(text) - len(text.lstrip())
        tail = len(text.rstrip())
        begins = max((self._overlap(token, text[head:tail]) for token in self._control_tokens), default=0)
        if begins:
            text = text[:head] + self._mark(text[head : head + begins]) + text[head + begins :]
            tail += 1 - begins
        ends = max((self._overlap_end(token, text[head:tail]) for token in self._control_tokens), default=0)
        if ends:
            text = text[: tail - ends] + self._mark(text[tail - ends : tail]) + text[tail:]
        return text

    def _mark(self, piece: str) -> str:
        if piece not in self._marks:
            self._marks[piece] = next(self._free)
        return self._marks[piece]

    def _reveal(self, text: str) -> str:
        for piece, mark in self._marks.items():
            text = text.replace(mark, piece)
        return text

    @staticmethod
    def _overlap(token: str, text: str) -> int:
        """Length of the longest proper end of `token` that `text` starts with."""
        return next((n for n in range(min(len(token) - 1, len(text)), 0, -1) if text.startswith(token[-n:])), 0)

    @staticmethod
    def _overlap_end(token: str, text: str) -> int:
        """Length of the longest proper start of `token` that `text` ends with."""
        return next((n for n in range(min(len(token) - 1, len(text)), 0, -1) if text.endswith(token[:n])), 0)
