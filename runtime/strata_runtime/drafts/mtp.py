"""Drafts by the checkpoint's own multi-token-prediction layer."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from strata_runtime.drafts.drafter import Best
from strata_runtime.layers.mtp import Mtp

_HELD = 64  # tokens that wait to be read together, when nobody asks for drafts


class MtpDrafter:
    """Runs the layer behind the network, over prompt and text; a draft behind a draft goes on from its own state.

    The layer needs the token behind a state. So the newest states wait for it, and are read together with the first
    draft: one pass for the tokens of a window. What drafts leave in the layer's cache is forgotten at once.
    """

    name = "mtp"
    wants_states = True

    def __init__(self, mtp: Mtp, capacity: int) -> None:
        """`capacity`: most positions of the text."""
        self._mtp = mtp
        self._cache = mtp.new_cache(capacity)
        self._ids: list[int] = []
        self._states: list[torch.Tensor] = []

    def seen(self, at: int, ids: Sequence[int], states: torch.Tensor | None) -> None:
        """Hold states until the token behind them is known."""
        assert states is not None
        if len(self._ids) >= _HELD:
            self._read_held(ids[0])
        self._ids += ids
        self._states.append(states)

    def draft(self, at: int, token: int, count: int, best: Best) -> list[int]:
        """Guess the layer's most probable token, then the one behind it.

        A draw from its logits with the random number of the position hits less often: where the layer is wrong about
        how sure the network is, it leaves the most probable token for one of many others.
        """
        state = self._read_held(token)
        length = self._cache.length
        drafts: list[int] = []
        while len(drafts) < count:
            if drafts:
                state = self._mtp.forward(drafts[-1:], state, self._cache)
            logits = self._mtp.logits(state).numpy()
            if not math.isfinite(float(logits.sum())):
                break
            drafts.append(best(logits))
        self._cache.truncate(length)
        return drafts

    def _read_held(self, token: int) -> torch.Tensor:
        """Read what is held, with `token` behind it; return the last state."""
        for each in self._states:
            _keep_for_this_stream(each)
        states = self._states[0] if len(self._states) == 1 else torch.cat(self._states)
        last = self._mtp.forward([*self._ids[1:], token], states, self._cache)[-1:]
        self._ids, self._states = [], []
        return last


def _keep_for_this_stream(states: torch.Tensor) -> None:
    """Keep memory until what is launched here has run: another lane's stream could get it once it is freed."""
    if states.is_cuda:
        states.record_stream(torch.cuda.current_stream(states.device))
