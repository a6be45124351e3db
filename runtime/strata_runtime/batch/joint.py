"""Windows that several texts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from strata_runtime.batch.slots import Slot
from strata_runtime.decoding import Decoding
from strata_runtime.drafts.width import FixedWidth, MeasuredWidth, Width
from strata_runtime.errors import NotFiniteError
from strata_runtime.layers.outcome import Rows
from strata_runtime.model import Model
from strata_runtime.windows import Proposal

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


class Widths:
    """What chooses the widths of the texts that share a window: one for every number of them."""

    def __init__(self, settings: Settings, alone: Width, rows: int) -> None:
        """`alone`: for windows of one text. `rows`: most tokens of a window."""
        self._window, self._rows = settings.window, rows
        self._of: dict[int, Width] = {1: alone}

    def of(self, texts: int) -> Width:
        """Return what chooses for each of so many texts, at most as many as a window has rows."""
        if texts not in self._of:
            self._of[texts] = self._make(self._rows // texts)
        return self._of[texts]

    def _make(self, most: int) -> Width:
        window = self._window
        if window.draft == "none" or most == 1:
            return FixedWidth(1)
        return FixedWidth(min(window.width, most)) if window.width else MeasuredWidth(most)


@dataclass(frozen=True, slots=True)
class _Part:
    slot: Slot
    decoding: Decoding
    proposal: Proposal


class JointWindow:
    """One window: made from what texts propose, read, and given to each of them."""

    def __init__(self, model: Model, width: Width) -> None:
        """`width`: what chooses each text's."""
        self._model, self._width = model, width
        self._parts: list[_Part] = []

    @property
    def slots(self) -> Sequence[Slot]:
        """Whose texts share it."""
        return [part.slot for part in self._parts]

    def add(self, slot: Slot) -> None:
        """Take in what a slot's text proposes."""
        assert slot.job is not None and slot.job.decoding is not None
        decoding = slot.job.decoding
        proposal = decoding.propose(self._width)
        slot.cache.truncate(proposal.at)
        self._parts.append(_Part(slot, decoding, proposal))

    def read(self) -> list[tuple[Slot, Exception]]:
        """Read it, and give all texts their rows; return those whose rows are not finite.

        A draft whose row is not finite is left out with all behind it: it may never become part of the text. Raises
        `StallError` when the window came to no end.
        """
        tokens = sum(len(part.proposal.ids) for part in self._parts)
        wanted = any(part.decoding.drafter.wants_states for part in self._parts)
        states = self._model.new_states(tokens) if wanted else None
        outcome = self._model.joint_window([(part.proposal.ids, part.slot.cache) for part in self._parts], states)
        failed: list[tuple[Slot, Exception]] = []
        first = 0
        for part in self._parts:
            count = len(part.proposal.ids)
            finite = outcome.finite_rows(first, first + count)
            if not finite:
                failed.append((part.slot, NotFiniteError(part.proposal.at)))
            else:
                own = states if part.decoding.drafter.wants_states else None
                rows = Rows(outcome, first, finite)
                part.decoding.give(rows, None if own is None else own[first : first + finite])
            first += count
        return failed
