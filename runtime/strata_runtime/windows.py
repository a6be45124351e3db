"""Verify windows: a text's newest token and drafts behind it, one pass for all, and how far the drafts were right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch

from strata_runtime.drafts.drafter import Best, Drafter
from strata_runtime.drafts.width import Width
from strata_runtime.progress import Progress
from strata_runtime.reading import Reader
from strata_runtime.request import Acceptance
from strata_runtime.sampling import Row


@dataclass(slots=True)
class _Window:
    """`ids` from position `at` on, which shared a pass: the newest token, then drafts; and the logits after each.

    `states`: what the drafter is to get of them. `seconds`: time of drafting and of the pass.
    """

    at: int
    ids: Sequence[int]
    rows: Row
    states: torch.Tensor | None
    seconds: float
    right: int = field(default=0, init=False)  # drafts that were, in front of any that was not
    is_open: bool = field(default=True, init=False)

    def take(self, token: int) -> bool:
        """Judge the next draft by the token that was drawn in its place; return whether there was one."""
        judged = self.right + 1 < len(self.ids)
        self.is_open = judged and self.ids[self.right + 1] == token
        self.right += self.is_open
        return judged


class Windows:
    """The passes of one text: logits one by one, whatever the width of the windows that they come from.

    Logits are those of reading token by token, bit for bit: the rows of one pass do not depend on each other's company,
    and what was read of wrong drafts is overwritten.
    """

    def __init__(self, reader: Reader, prompt: Sequence[int], drafter: Drafter, width: Width, best: Best) -> None:
        """`best`: what `Drafter.draft` wants to know of logits."""
        self._reader, self._drafter, self._width, self._best = reader, drafter, width, best
        self._prompt = prompt
        self._window: _Window | None = None
        self._newest = 0
        self._windows = self._taken = self._drafted = self._accepted = 0

    @property
    def acceptance(self) -> Acceptance:
        """How drafts did so far. Those behind a wrong one count as wrong, those behind the text's end do not count."""
        rate = self._taken / self._windows if self._windows else 0.0
        return Acceptance(self._drafter.name, self._windows, self._drafted, self._accepted, rate)

    def row(self, room: int, progress: Progress | None) -> Row:
        """Return the logits of the next token, float32 [vocab]; the first call reads the prompt.

        room: how many tokens may still be drawn, at least 1 after the prompt. progress: of the prompt.
        """
        window = self._window
        if window is None:
            last = self._reader.read(self, self._prompt, self._drafter, progress)
            window = _Window(len(self._prompt) - 1, self._prompt[-1:], last[None], None, 0.0)
        elif not window.is_open:
            if self._windows:
                self._drafter.seen(window.at, *_standing(window))
            window = self._pass(window.at + window.right + 1, room)
            self._windows += 1
        self._window = window
        row: Row = window.rows[window.right]
        return row

    def take(self, token: int) -> None:
        """Take note of the token that was drawn from `row`'s logits."""
        window = self._window
        assert window is not None
        self._newest = token
        self._taken += self._windows > 0
        if window.take(token):
            self._drafted += 1 if window.is_open else len(window.ids) - 1 - window.right
            self._accepted += window.is_open
        if not window.is_open and self._windows:
            self._width.record(len(window.ids), window.right, window.seconds)

    def _pass(self, at: int, room: int) -> _Window:
        started = perf_counter()
        self._reader.require(self)
        drafts: list[int] = []
        count = min(self._width.choose(), room) - 1
        if count > 0:
            drafts = self._drafter.draft(at, self._newest, count, self._best)
        ids = [self._newest, *drafts]
        rows, states = self._reader.window(self, at, ids, self._drafter.wants_states)
        return _Window(at, ids[: len(rows)], rows, states, perf_counter() - started)


def _standing(window: _Window) -> tuple[Sequence[int], torch.Tensor | None]:
    """Return what of a window became part of the text: its first token and the drafts that were right."""
    stop = window.right + 1
    return window.ids[:stop], None if window.states is None else window.states[:stop]
