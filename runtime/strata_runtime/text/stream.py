"""Text as it comes: whole characters only, and nothing of a stop string."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from strata_runtime.errors import UserError
from strata_runtime.text.tokenizer import Tokenizer

REPLACEMENT = "\ufffd"

_UNFINISHED_AT_MOST = 3  # bytes of a UTF-8 character that lacks its last one
_WINDOW = 16
_LONGEST_WINDOW = 64  # of nothing but bytes that are no characters
_CONTEXT = 8


class Detokenizer:
    """Turns tokens into text one by one, without ever giving out part of a character.

    Tokens are decoded together with some before them, because how a token reads can depend on its neighbours: a
    character's bytes may be spread over tokens, and some decoders treat a text's first space specially.
    """

    def __init__(self, decode: Callable[[Sequence[int]], str]) -> None:
        self._decode = decode
        self._window: list[int] = []
        self._given = 0  # characters of the window's text that were given out
        self._border = 0  # tokens of the window when its text last ended with a whole character

    def push(self, token: int) -> str:
        """Add a token that has text; return the text that is now certain (often empty)."""
        window = self._window
        window.append(token)
        text = self._decode(window)
        # Some decoders show all neighbouring bytes as invalid while one character among them lacks its end.
        certain = len(text.rstrip(REPLACEMENT)) if text.endswith(REPLACEMENT) else len(text)
        is_whole = certain == len(text)
        if len(window) >= _LONGEST_WINDOW and not is_whole:
            certain = max(certain, len(text) - _UNFINISHED_AT_MOST)
        new = text[self._given : certain]
        self._given += len(new)
        if is_whole:
            # Bytes of half a character in front of others would spoil those, so the window is cut between characters.
            if len(window) >= _WINDOW:
                self._keep(window[self._border :], held=0)
            self._border = len(self._window)
        elif len(window) >= _LONGEST_WINDOW:
            self._keep(window[-_CONTEXT:], held=len(text) - self._given)
        return new

    def flush(self) -> str:
        """End the text: return what was held back. An unfinished character becomes U+FFFD."""
        rest = self._decode(self._window)[self._given :] if self._window else ""
        self._window = []
        self._given = self._border = 0
        return rest

    def _keep(self, window: list[int], held: int) -> None:
        self._window = window
        self._given = max(0, len(self._decode(window)) - max(0, held))
        self._border = 0


class StopMatcher:
    """Finds stop strings in text that comes in pieces, and holds back what may become one.

    The stop string that is complete first ends the text; of several complete at once, the one that starts first.
    """

    def __init__(self, stops: Iterable[str]) -> None:
        self._stops = tuple(dict.fromkeys(stops))
        if "" in self._stops:
            raise UserError("a stop string must not be empty: it would stop before the first token")
        self._held = ""

    def push(self, text: str) -> tuple[str, bool]:
        """Add text; return (text that is now certain, whether a stop string was found)."""
        if not self._stops:
            return text, False
        text = self._held + text
        found = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            self._held = ""
            return text[: min(found)[1]], True
        keep = self._possible(text)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep], False

    def flush(self) -> str:
        """End the text: return what was held back."""
        held, self._held = self._held, ""
        return held

    def _possible(self, text: str) -> int:
        """Length of the longest end of `text` that starts a stop string."""
        start = len(text)
        for stop in self._stops:
            at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
            while 0 <= at < start:
                if stop.startswith(text[at:]):
                    start = at
                at = text.find(stop[0], at + 1)
        return len(text) - start


def _never(_: int) -> bool:
    return False


def _nothing(_: Sequence[int]) -> str:
    return ""


class TextStream:
    """Tokens in, text out: decoding and stop strings together."""

    def __init__(self, tokenizer: Tokenizer | None, stops: Iterable[str]) -> None:
        """`tokenizer` None: no token has text."""
        self._has_text = _never if tokenizer is None else tokenizer.has_text
        self._detokenizer = Detokenizer(_nothing if tokenizer is None else tokenizer.decode)
        self._stops = StopMatcher(stops)

    def push(self, token: int) -> tuple[str, bool]:
        """Add a token; return (text that is now certain, whether a stop string was found)."""
        return self._stops.push(self._detokenizer.push(token)) if self._has_text(token) else ("", False)

    def finish(self) -> tuple[str, bool]:
        """End the text; return (all that was held back, whether a stop string was found in it)."""
        text, found = self._stops.push(self._detokenizer.flush())
        return (text, True) if found else (text + self._stops.flush(), False)
