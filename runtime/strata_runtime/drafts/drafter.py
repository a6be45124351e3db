"""What a drafter is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from strata_runtime.sampling import Row

Best = Callable[[Row], int]
"""From logits, float32 [vocab], to the token that is most probably drawn from them, penalties counted."""


class Drafter(Protocol):
    """Guesses the tokens that follow one text. The text does not depend on them; right ones save passes."""

    @property
    def name(self) -> str:
        """What `window.draft` calls it."""
        ...

    @property
    def wants_states(self) -> bool:
        """Whether `seen` needs the network's states."""
        ...

    def seen(self, at: int, ids: Sequence[int], states: torch.Tensor | None) -> None:
        """Take note that `ids` from position `at` on are part of the text and went through the network.

        Called once for every position, in order. `states`: float32 [ids, hidden_size], after the final norm; the
        drafter's own from now on. None for a drafter that does not want them.
        """
        ...

    def draft(self, at: int, token: int, count: int, best: Best) -> list[int]:
        """Guess at most `count` (at least 1) tokens that follow `token`, the text's newest, which is at position `at`.

        Positions before `at` were seen.
        """
        ...


class NoDrafts:
    """Guesses nothing."""

    name = "none"
    wants_states = False

    def seen(self, at: int, ids: Sequence[int], states: torch.Tensor | None) -> None:
        """Take note of nothing."""

    def draft(self, at: int, token: int, count: int, best: Best) -> list[int]:
        """Return no drafts."""
        return []
