"""What is wrong with one spec object, said with its name."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.diagnostics import Note, Sink
from strata_gen.load.document import Document, Key


@dataclass(frozen=True)
class Findings:
    """Reports errors of the object `what` ("format 'q8_0'") in one document."""

    what: str
    document: Document
    sink: Sink

    def error(self, code: str, message: str, *path: Key, hint: str = "", notes: tuple[Note, ...] = ()) -> None:
        """Report an error at the value that `path` leads to."""
        self.sink.error(code, f"{message} in {self.what}", self.document.at(*path), hint, notes)

    def error_at_key(self, code: str, message: str, *path: Key) -> None:
        """Report an error at the last key of `path`, whose value is long."""
        self.sink.error(code, f"{message} in {self.what}", self.document.key_at(*path))

    @property
    def count(self) -> int:
        """Findings so far, of whatever object."""
        return len(self.sink.diagnostics)
