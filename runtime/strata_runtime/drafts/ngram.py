"""Prompt lookup: what followed the text's end when it occurred before."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from strata_runtime.drafts.drafter import Best
from strata_runtime.drafts.suffixes import SuffixIndex


class NgramDrafter:
    """Finds the longest end of prompt and text that occurred before; works with every model."""

    name = "ngram"
    wants_states = False

    def __init__(self, least: int) -> None:
        """`least`: shortest end that counts, in tokens."""
        self._least = least
        self._index = SuffixIndex()

    def seen(self, at: int, ids: Sequence[int], states: torch.Tensor | None) -> None:
        """Add what is new; the first of `ids` may be known since `draft`."""
        for token in ids[len(self._index.ids) - at :]:
            self._index.push(token)

    def draft(self, at: int, token: int, count: int, best: Best) -> list[int]:
        """Repeat what followed; past the text's end, the drafts themselves."""
        self.seen(at, (token,), None)
        length, behind = self._index.match
        if length < self._least:
            return []
        known = self._index.ids[behind : behind + count]
        return [known[index % len(known)] for index in range(count)]
