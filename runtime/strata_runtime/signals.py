"""What the run time knows of a signal: the type that a kernels package fills in its generated `signals.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from strata_runtime.knobs.info import Condition, Values


@dataclass(frozen=True, slots=True)
class SignalInfo:
    """One word of the memory through which the two halves of a window meet.

    `kind`: `ring` is raised for every layer, to its ring value; `error` is 0, or what went wrong. `writer` raises it,
    the other half reads it. `stamped`: behind it lie data that hold the same ring value once they are there, so that a
    word which comes before them is noticed. `raised` says what has happened then, `missing` what follows if it never
    does. `when` None: it always exists.
    """

    name: str
    kind: Literal["ring", "error"]
    writer: Literal["device", "host"]
    stamped: bool
    raised: str
    missing: str
    when: Condition | None = None

    def exists(self, values: Values) -> bool:
        """Whether the word exists under these values of all knobs."""
        return self.when is None or self.when.holds(values)
