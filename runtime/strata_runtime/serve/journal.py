"""What the server says of itself: one line an event, `key=value` or JSON."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from datetime import UTC, datetime
from typing import TextIO


class Journal:
    """Writes events to a stream, stderr unless given, in the order in which they come."""

    def __init__(self, *, as_json: bool, stream: TextIO | None = None) -> None:
        self._as_json = as_json
        self._stream = stream

    def say(self, event: str, **facts: object) -> None:
        """Write one line. Facts that are None are left out; a stream that takes nothing more is no error."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        given = {name: round(value, 4) if isinstance(value, float) else value for name, value in facts.items()}
        known = {"time": now, "event": event, **{name: value for name, value in given.items() if value is not None}}
        line = (
            json.dumps(known) if self._as_json else " ".join(f"{name}={_shown(each)}" for name, each in known.items())
        )
        with suppress(OSError, ValueError):
            print(line, file=self._stream or sys.stderr, flush=True)


def _shown(value: object) -> str:
    text = json.dumps(value) if not isinstance(value, str) else value
    return text if text and text.isascii() and text.isprintable() and not set(text) & set(' "=') else json.dumps(text)
