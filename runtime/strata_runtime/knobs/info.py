"""What the run time knows of a knob: the types that a kernels package fills in its generated `settings.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

KnobValue = bool | int | float | str | tuple[str, ...] | None
"""Bytes are an int in bytes, durations an int in nanoseconds, lists a tuple of text; None is "unset"."""

Values = Mapping[str, Any]
"""One `KnobValue` per dotted knob name."""


class Source(IntEnum):
    """Where a value comes from; a later member wins over an earlier one."""

    DEFAULT = 0
    TARGET = 1
    BUILT = 2
    IMPLIED = 3
    CONFIG = 4
    ENVIRONMENT = 5
    COMMAND_LINE = 6
    PYTHON = 7

    @property
    def label(self) -> str:
        """The source in words, e.g. `command line`."""
        return _LABELS[self]

    @property
    def is_set(self) -> bool:
        """Whether something beyond the package's own defaults chose the value."""
        return self > Source.BUILT


_LABELS = {
    Source.DEFAULT: "default",
    Source.TARGET: "default of this target",
    Source.BUILT: "built in",
    Source.IMPLIED: "implied",
    Source.CONFIG: "config file",
    Source.ENVIRONMENT: "environment",
    Source.COMMAND_LINE: "command line",
    Source.PYTHON: "Python",
}


@dataclass(frozen=True, slots=True)
class Origin:
    """The source of one value; `place` is the exact spot where there is one (a file, or the knob that implies it)."""

    source: Source
    place: str = ""

    def __str__(self) -> str:
        return f"{self.source.label} {self.place}" if self.place else self.source.label


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number (bytes and durations in their base unit). `above`/`below` exclude the bound itself."""

    minimum: int | float | None = None
    maximum: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    multiple_of: int | None = None


@dataclass(frozen=True, slots=True)
class Condition:
    """A relation, compiled: `holds(values)`, the knobs it reads, its source text, and what to tell the user."""

    holds: Callable[[Values], bool]
    reads: tuple[str, ...]
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Implication:
    """While `when` holds, `knob` defaults to `value`; anything that the user sets is stronger."""

    when: Condition
    knob: str
    value: KnobValue


@dataclass(frozen=True, slots=True)
class KnobInfo:
    """One knob of a kernels package.

    `declared` is the default in the spec, `default` the one that holds in this package, and `default_source` says
    why the two may differ: the target has its own, or the value of a `compile` knob is built in. `type`, `affects`,
    `output` and `invalid` are words of the spec language. `words` stand for values of a number: (word, value).
    Relations work as in `strata_runtime.knobs.resolve`.
    """

    name: str
    env: str
    flag: str
    field: str
    type: str
    declared: KnobValue
    default: KnobValue
    default_source: Source
    affects: str
    output: str
    invalid: str = "error"
    range: Range = Range()
    choices: tuple[str, ...] = ()
    words: tuple[tuple[str, int | float], ...] = ()
    requires: tuple[Condition, ...] = ()
    conflicts: tuple[Condition, ...] = ()
    ignored_unless: Condition | None = None
    off_with: tuple[Condition, ...] = ()
    implies: tuple[Implication, ...] = ()
    says: tuple[Condition, ...] = ()
    help: str = ""
    details: str = ""
    since: str = ""

    @property
    def section(self) -> str:
        """Group of settings and of the config file, e.g. `pool`."""
        return self.name.partition(".")[0]

    @property
    def attribute(self) -> str:
        """Name inside its section, e.g. `threads`."""
        return self.name.partition(".")[2]

    @property
    def is_built_in(self) -> bool:
        """Whether the value was fixed when the package was built."""
        return self.affects == "compile"
