"""The longest end of a growing text that occurred before, kept up to date token by token."""

from __future__ import annotations

from dataclasses import dataclass, field

_REFRESHED = 16  # ends of the text, longest first, whose latest occurrence is noted with every token


@dataclass(slots=True)
class _State:
    """Strings that end at the same places of the text; `length` is that of the longest.

    `link`: the state of the longest shorter end of them (-1: none). `end`: one place where they end, the latest known.
    """

    length: int
    link: int
    end: int
    follow: dict[int, int] = field(default_factory=dict)


class SuffixIndex:
    """A suffix automaton: a token takes constant time on average, however long and repetitive the text is.

    Takes some 500 bytes per token.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._states = [_State(0, -1, -1)]
        self._last = 0
        self._match = (0, 0)

    def push(self, token: int) -> None:
        """Add one token to the text."""
        states = self._states
        place = len(self.ids)
        self.ids.append(token)
        new = len(states)
        states.append(_State(states[self._last].length + 1, 0, place))
        at = self._last
        while at >= 0 and token not in states[at].follow:
            states[at].follow[token] = new
            at = states[at].link
        states[new].link = 0 if at < 0 else self._longest(at, token)
        self._last = new
        self._match = self._found(states[new].link, place)

    @property
    def match(self) -> tuple[int, int]:
        """Length of the longest end of the text that occurred before, and the place behind a late occurrence of it.

        The length is 0 when the last token is new.
        """
        return self._match

    def _longest(self, at: int, token: int) -> int:
        """Return the state of exactly the strings that end in `at` with `token` behind them."""
        states = self._states
        old = states[at].follow[token]
        if states[old].length == states[at].length + 1:
            return old
        split = len(states)
        states.append(_State(states[at].length + 1, states[old].link, states[old].end, dict(states[old].follow)))
        states[old].link = split
        while at >= 0 and states[at].follow.get(token) == old:
            states[at].follow[token] = split
            at = states[at].link
        return split

    def _found(self, state: int, place: int) -> tuple[int, int]:
        """Look the occurrence up, and note `place` as the latest one of the longest ends."""
        states = self._states
        match = (states[state].length, states[state].end + 1)
        for _ in range(_REFRESHED):
            if state <= 0:
                break
            states[state].end = place
            state = states[state].link
        return match
