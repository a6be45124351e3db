"""Verify windows: a text's newest token and drafts behind it, one pass for all, and how far the drafts were right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter

import torch

from strata_runtime.drafts.drafter import Best, Drafter
from strata_runtime.drafts.width import Width
from strata_runtime.layers.outcome import Outcome, Rows
from strata_runtime.request import Acceptance
from strata_runtime.sampling import Row


@dataclass(frozen=True, slots=True)
class Proposal:
    """`ids` that are to share a pass, from position `at` on: the newest token, then drafts.

    `width`: what chose how many, and learns what came of it. `began`: when drafting did, of `perf_counter`.
    """

    at: int
    ids: Sequence[int]
    width: Width
    began: float


@dataclass(slots=True)
class _Window:
    """`ids` from position `at` on, which shared a pass: the newest token, then drafts; and the logits after each.

    `states`: what the drafter is to get of them. `seconds`: time of drafting and of the pass. `width`: None for the end
    of the prompt.
    """

    at: int
    ids: Sequence[int]
    rows: Rows
    states: torch.Tensor | None
    seconds: float
    width: Width | None
    right: int = field(default=0, init=False)  # drafts that were, in front of any that was not
    is_open: bool = field(default=True, init=False)

    def take(self, token: int) -> bool:
        """Judge the next draft by the token that was drawn in its place; return whether there was one."""
        judged = self.right + 1 < len(self.ids)
        self.is_open = judged and self.ids[self.right + 1] == token
        self.right += self.is_open
        return judged


class Windows:
    """The windows of one text: what each is to read, and its logits one by one. Who reads them is not its business.

    Logits are those of reading token by token, bit for bit: the rows of one pass do not depend on each other's company,
    and what was read of wrong drafts is overwritten.
    """

    def __init__(self, drafter: Drafter, best: Best) -> None:
        """`best`: what `Drafter.draft` wants to know of logits."""
        self._drafter, self._best = drafter, best
        self._window: _Window | None = None
        self._proposal: Proposal | None = None
        self._newest = 0
        self._windows = self._taken = self._drafted = self._accepted = 0

    @property
    def acceptance(self) -> Acceptance:
        """How drafts did so far. Those behind a wrong one count as wrong, those behind the text's end do not count."""
        rate = self._taken / self._windows if self._windows else 0.0
        return Acceptance(self._drafter.name, self._windows, self._drafted, self._accepted, rate)

    def begin(self, at: int, token: int, row: Row) -> None:
        """Take the logits, float32 [vocab], of the prompt's last token, at position `at`."""
        logits = torch.from_numpy(row[None])
        rows = Rows(Outcome(0.0, lambda: logits), 0, 1)  # finite, or it would not have been given
        self._window = _Window(at, (token,), rows, None, 0.0, None)

    @property
    def is_waiting(self) -> bool:
        """Whether the next token's logits are not there yet: a proposal is to be read."""
        return not self._open.is_open

    @property
    def row(self) -> Row:
        """The logits of the next token, float32 [vocab]."""
        return self._open.rows.row(self._open.right)

    @property
    def best(self) -> int:
        """The most probable next token, the lowest id among equals."""
        return self._open.rows.best(self._open.right)

    def propose(self, room: int, width: Width) -> Proposal:
        """Return what the next window is to read. room: how many tokens may still be drawn, at least 1."""
        window, began = self._open, perf_counter()
        if window.width is not None:
            self._drafter.seen(window.at, *_standing(window))
        at = window.at + window.right + 1
        drafts: list[int] = []
        count = min(width.choose(), room) - 1
        if count > 0:
            drafts = self._drafter.draft(at, self._newest, count, self._best)
        self._proposal = Proposal(at, [self._newest, *drafts], width, began)
        return self._proposal

    def give(self, rows: Rows, states: torch.Tensor | None) -> None:
        """Take what was read of the proposal's first ids: logits, and states [n, hidden_size] if they are wanted."""
        proposal = self._proposal
        assert proposal is not None
        seconds = perf_counter() - proposal.began
        self._window = _Window(proposal.at, proposal.ids[: rows.count], rows, states, seconds, proposal.width)
        self._windows += 1

    def take(self, token: int) -> None:
        """Take note of the token that was drawn from `row`'s logits."""
        window = self._open
        self._newest = token
        self._taken += window.width is not None
        if window.take(token):
            self._drafted += 1 if window.is_open else len(window.ids) - 1 - window.right
            self._accepted += window.is_open
        if not window.is_open and window.width is not None:
            window.width.record(len(window.ids), window.right, window.seconds)

    @property
    def _open(self) -> _Window:
        assert self._window is not None
        return self._window


def _standing(window: _Window) -> tuple[Sequence[int], torch.Tensor | None]:
    """Return what of a window became part of the text: its first token and the drafts that were right."""
    stop = window.right + 1
    return window.ids[:stop], None if window.states is None else window.states[:stop]
