"""Knobs: everything that a user can set, and what is derived from one entry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span
from strata_gen.model.expr import Expr


class KnobType(StrEnum):
    """Type of a knob's value."""

    BOOL = "bool"
    INT = "int"
    FLOAT = "float"
    ENUM = "enum"
    STR = "str"
    BYTES = "bytes"  # an int, in bytes; written 512MiB, 2GB, 4096
    DURATION = "duration"  # an int, in nanoseconds; written 250ms, 2s, 50us
    PATH = "path"
    LIST = "list"  # comma-separated text; a tuple of str


class Affects(StrEnum):
    """When a value takes effect. Only `compile` enters a build key."""

    COMPILE = "compile"
    LAUNCH = "launch"
    RUNTIME = "runtime"
    LIVE = "live"


class Output(StrEnum):
    """What a value may do to the generated text's arithmetic."""

    IDENTICAL = "identical"
    REORDERS = "reorders"
    APPROXIMATES = "approximates"


class Invalid(StrEnum):
    """What a value that does not parse or fit does at run time."""

    ERROR = "error"
    DEFAULT = "default"


class ChoiceSource(StrEnum):
    """Specs whose names are choices too."""

    FORMATS = "formats"  # weight formats that floats can be encoded in


KnobValue = bool | int | float | str | tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Range:
    """Bounds of a number (bytes and durations in their base unit). `above`/`below` exclude the bound itself."""

    minimum: int | float | None = None
    maximum: int | float | None = None
    above: int | float | None = None
    below: int | float | None = None
    multiple_of: int | None = None


@dataclass(frozen=True, slots=True)
class Relation:
    """A condition over knobs, its source text, and what to tell the user when it strikes."""

    condition: Expr
    text: str
    note: str
    span: Span


@dataclass(frozen=True, slots=True)
class Implication:
    """While `when` holds, `knob` defaults to `value` (weaker than anything that the user sets).

    The value is as written until `strata_gen.model.check_knob.settle_implications` has found the knob it is for.
    `span` is the value's place, `knob_span` that of the knob's name.
    """

    when: Relation
    knob: str
    value: KnobValue
    span: Span
    knob_span: Span


@dataclass(frozen=True, slots=True)
class Measurement:
    """One measured effect, with the hardware it was measured on."""

    hardware: str
    result: str


@dataclass(frozen=True, slots=True)
class Knob:
    """One knob. `default` None means unset.

    `choices` are those written in the entry until `strata_gen.model.check_knob.settle_choices` has added those of
    `choices_from`. `words` stand for values of a number, in its range or not: (word, value).

    `requires`: must hold while the knob is not at its default, else an error. `conflicts`: must not hold while it is
    not at its default. `ignored_unless`: while it does not hold, a set value is ignored with one line.
    `off_with`: while one holds, the value is replaced by the default with one line that carries the note.
    `variable` is empty unless the entry names another one than follows from the knob's name.
    `says`: while one holds, its note is a line at start-up, with the value in place of `{value}`.
    """

    name: str
    variable: str
    type: KnobType
    default: KnobValue
    range: Range
    choices: tuple[str, ...]
    choices_from: ChoiceSource | None
    words: tuple[tuple[str, int | float], ...]
    invalid: Invalid
    affects: Affects
    output: Output
    requires: tuple[Relation, ...]
    conflicts: tuple[Relation, ...]
    ignored_unless: Relation | None
    off_with: tuple[Relation, ...]
    implies: tuple[Implication, ...]
    says: tuple[Relation, ...]
    help: str
    details: str
    since: str
    measured: tuple[Measurement, ...]
    span: Span

    def word_of(self, value: KnobValue) -> str | None:
        """The word that stands for `value`, if one does."""
        return next((word for word, meant in self.words if meant == value), None)

    @property
    def env(self) -> str:
        """Environment variable, e.g. `STRATA_VERIFY_ECAP`."""
        return self.variable or "STRATA_" + self.name.replace(".", "_").upper()

    @property
    def flag(self) -> str:
        """Command line flag, e.g. `--verify-ecap`."""
        return "--" + self.name.replace(".", "-").replace("_", "-")

    @property
    def field(self) -> str:
        """C++ field and Python keyword, e.g. `verify_ecap`."""
        return self.name.replace(".", "_")

    @property
    def section(self) -> str:
        """Group of settings, e.g. `verify`."""
        return self.name.partition(".")[0]

    @property
    def attribute(self) -> str:
        """Field inside its section, e.g. `ecap`."""
        return self.name.partition(".")[2]

    @property
    def anchor(self) -> str:
        """Anchor in the reference page."""
        return self.name.replace(".", "-").replace("_", "-")
