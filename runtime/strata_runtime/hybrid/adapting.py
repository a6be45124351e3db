"""Experts that move into slots between windows, as windows ask for them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from strata_runtime.hybrid.residency import Move, Residency

Scores = NDArray[np.float32]
"""Windows of late that asked for each expert, [layers, experts]."""

DECAY = 0.995
"""What a window counts for, one window later: some 200 windows are remembered."""

SIGMAS = 2.5
"""How far apart two scores must be, in deviations of counts that differ by chance."""

Expert = tuple[int, int]
"""Layer and number."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An expert that is to get a slot, and the one that is to lose its own."""

    comes: Expert
    goes: Expert


def exchanges(scores: Scores, table: NDArray[np.int32], most: int) -> list[Exchange]:
    """Return at most so many exchanges: the most asked without a slot for the least asked with one.

    Each pays for its own copy, a read of the expert, and for a way back: one expert of a pair must have been asked for
    more often than chance would have it.
    """
    flat, held = scores.reshape(-1), table.reshape(-1) >= 0
    outside, inside = np.flatnonzero(~held), np.flatnonzero(held)
    count = min(most, len(outside), len(inside))
    if count <= 0:
        return []
    comes = _first(outside, -flat[outside], count)
    goes = _first(inside, flat[inside], count)
    experts, found = table.shape[1], []
    for comer, goer in zip(comes, goes, strict=True):
        more, less = float(flat[comer]), float(flat[goer])
        if more - less <= 1 + SIGMAS * sqrt(more + less):
            break
        found.append(Exchange(divmod(comer, experts), divmod(goer, experts)))
    return found


def _first(places: NDArray[np.intp], keys: Scores, count: int) -> list[int]:
    """Return the places of the smallest keys, ascending, equals by place."""
    some = np.sort(np.argpartition(keys, count - 1)[:count])
    return [int(place) for place in places[some[np.argsort(keys[some], kind="stable")]]]


class Mover(Protocol):
    """Copies experts to slots while windows run."""

    def start(self, expert: Expert, slot: int) -> Callable[[], bool]:
        """Begin a copy to a free slot, and return what says whether it has ended. Must not wait."""
        ...

    def close(self) -> None:
        """Wait for copies, and let go of what they take. Idempotent."""
        ...


class Adapting:
    """Moves experts between windows. For one thread.

    `asked`: where windows note what they ask for, uint8 [layers, experts]. What a window computes is that of the slots
    as they are when it begins: a copy has ended before its expert gets the slot, and goes to a slot of nobody.
    """

    def __init__(self, residency: Residency, mover: Mover) -> None:
        """Move as many at a time as there are free slots."""
        self.asked = np.zeros(residency.table.shape, np.uint8)
        self._residency, self._mover = residency, mover
        self._scores: Scores = np.zeros(residency.table.shape, np.float32)
        self._on_the_way: Sequence[tuple[Exchange, int, Callable[[], bool]]] = ()

    def before_window(self) -> None:
        """Give slots to the experts whose copies have ended, unless a prompt is read beside windows."""
        if not self._on_the_way or not all(has_ended() for _, _, has_ended in self._on_the_way):
            return
        moves = [Move(exchange.comes, slot, exchange.goes) for exchange, slot, _ in self._on_the_way]
        if self._residency.exchange(moves):
            self._on_the_way = ()

    def after_window(self) -> None:
        """Take note of what a window asked for, and begin copies when none are on their way."""
        self._scores *= DECAY
        self._scores += self.asked
        self.asked.fill(0)
        if not self._on_the_way:
            self.move(exchanges(self._scores, self._residency.table, len(self._residency.free)))

    def close(self) -> None:
        """End. Idempotent."""
        self._on_the_way = ()
        self._mover.close()

    def move(self, wanted: Sequence[Exchange]) -> None:
        """Begin copies; there must be as many free slots, and none may be on their way."""
        slots = self._residency.free[: len(wanted)]
        self._on_the_way = [
            (exchange, slot, self._mover.start(exchange.comes, slot))
            for exchange, slot in zip(wanted, slots, strict=True)
        ]
