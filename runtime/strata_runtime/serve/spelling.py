"""Log-probabilities as clients see them: tokens as text and bytes, given out with the text that they make."""

from __future__ import annotations

import codecs
from collections import deque
from dataclasses import dataclass

from strata_runtime.batch.events import TokenLogprobs
from strata_runtime.text.tokenizer import Tokenizer


def spelled(tokenizer: Tokenizer, token: int) -> tuple[str, bytes]:
    """Return a token as text and its bytes.

    One that is no whole character is written `bytes:\\xe2`, as OpenAI's API does, so that no two are alike.
    """
    data = tokenizer.token_bytes(token)
    try:
        return data.decode(), data
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data), data


@dataclass(frozen=True, slots=True)
class Entry:
    """One token: `offset` is where its first character stands in the text."""

    logprobs: TokenLogprobs
    offset: int


class Alignment:
    """Holds tokens back until their text is given out, so that what a stop string took away is not told of."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._waiting: deque[Entry] = deque()
        self._made = 0  # characters that the tokens make
        self._given = 0  # characters of text that were given out

    def push(self, logprobs: TokenLogprobs | None, text: str) -> list[Entry]:
        """Add a token and the text given out with it; return the tokens whose text has begun by now."""
        if logprobs is not None and self._tokenizer.has_text(logprobs.token_id):
            self._waiting.append(Entry(logprobs, self._made))
            self._made += len(self._decoder.decode(self._tokenizer.token_bytes(logprobs.token_id)))
        self._given += len(text)
        ready = []
        while self._waiting and self._waiting[0].offset < self._given:
            ready.append(self._waiting.popleft())
        return ready
