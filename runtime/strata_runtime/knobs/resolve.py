"""From what was given to what holds.

Precedence: default < the target's default < implied < config file < environment < command line < Python. One
table of findings decides what is done and is what is said:

- `invalid: error` refuses a text that does not parse or fit; `invalid: default` replaces it by the default.
- `ignored_unless`: while it does not hold, a value that something set is ignored.
- `off_with`: while one holds, a value that differs from the declared default is replaced by it.
- `implies`: gives another knob a weaker default.
- `requires`, `conflicts`: looked at last, over what holds, for knobs that differ from their declared default.
- A value of a `compile` knob is the built one, which the generator has checked; anything else is named in a line.

Conditions see final values: a knob is settled after all that its own relations read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from pathlib import Path
from types import MappingProxyType

from strata_runtime.errors import UserError
from strata_runtime.knobs.config_file import CONFIG_FILE_KNOB, read_config_file
from strata_runtime.knobs.given import Flags, Given, Layer, from_command_line, from_environment, from_python
from strata_runtime.knobs.grammar import KnobError, parse, show, trimmed
from strata_runtime.knobs.info import Implication, KnobInfo, KnobValue, Origin, Source
from strata_runtime.knobs.unknown import unknown_variables

STRICT_KNOB = "config.strict"


@dataclass(frozen=True, slots=True)
class Resolution:
    """What holds: the value and origin of every knob by dotted name, and one line for each value that was not taken.

    `given` is what the sources gave, strongest last in each list, so that a scope can resolve again.
    """

    knobs: tuple[KnobInfo, ...]
    values: Mapping[str, KnobValue]
    sources: Mapping[str, Origin]
    lines: tuple[str, ...]
    layers: tuple[Layer, ...] = field(repr=False, default=())

    def differing(self) -> Iterator[KnobInfo]:
        """Yield the knobs whose value is not their declared default, in name order."""
        return (knob for knob in self.knobs if self.values[knob.name] != knob.declared)


def resolve(
    knobs: Sequence[KnobInfo],
    *,
    environ: Mapping[str, str],
    command_line: Flags | None = None,
    config_file: Path | None = None,
    python: Mapping[str, object] | None = None,
) -> Resolution:
    """Settle every knob.

    `command_line` holds texts by dotted name, `python` values by field name. `config_file` is read unless the knob
    `config.file` names another. Raises `UserError` with every problem, one per line.
    """
    above_file = (
        from_environment(knobs, environ),
        from_command_line(knobs, command_line or {}),
        from_python(knobs, python or {}),
    )
    path = _config_path(above_file) or config_file
    layers = (read_config_file(knobs, path) if path else {}, *above_file)
    resolution = settle(knobs, layers)
    strangers = unknown_variables(knobs, environ)
    if strangers and resolution.values.get(STRICT_KNOB):
        raise UserError("\n".join(f"{line} ({STRICT_KNOB} is on)" for line in strangers))
    return Resolution(
        resolution.knobs, resolution.values, resolution.sources, (*resolution.lines, *strangers), resolution.layers
    )


def _config_path(layers: Sequence[Layer]) -> Path | None:
    named = [trimmed(layer[CONFIG_FILE_KNOB].text) for layer in layers if CONFIG_FILE_KNOB in layer]
    return Path(named[-1]) if named else None


def settle(knobs: Sequence[KnobInfo], layers: tuple[Layer, ...]) -> Resolution:
    """Settle every knob from layers, the strongest last. Raises `UserError` with every problem, one per line."""
    table = _Table({knob.name: knob for knob in knobs}, layers)
    for name in _order(knobs):
        table.settle(table.knobs[name])
    for knob in knobs:
        table.check(knob)
    if table.errors:
        raise UserError("\n".join(table.errors))
    lines = tuple(line for knob in knobs for line in table.lines.get(knob.name, ()))
    values, sources = MappingProxyType(table.values), MappingProxyType(table.sources)
    return Resolution(tuple(knobs), values, sources, lines, layers)


def _order(knobs: Sequence[KnobInfo]) -> Iterable[str]:
    """Return names so that a knob comes after every knob that decides its value. The generator refuses cycles."""
    needs: dict[str, set[str]] = {knob.name: set() for knob in knobs}
    for knob in knobs:
        own = (*((knob.ignored_unless,) if knob.ignored_unless else ()), *knob.off_with)
        needs[knob.name].update(name for condition in own for name in condition.reads)
        for implication in knob.implies:
            needs[implication.knob].update(implication.when.reads)
    return TopologicalSorter(needs).static_order()


class _Table:
    """Values in the making, and everything there is to say about them."""

    def __init__(self, knobs: Mapping[str, KnobInfo], layers: Sequence[Layer]) -> None:
        self.knobs = knobs
        self.given = {name: given for layer in layers for name, given in layer.items()}
        self.implications: dict[str, list[tuple[KnobInfo, Implication]]] = {}
        for knob in knobs.values():
            for implication in knob.implies:
                self.implications.setdefault(implication.knob, []).append((knob, implication))
        self.values: dict[str, KnobValue] = {}
        self.sources: dict[str, Origin] = {}
        self.lines: dict[str, list[str]] = {}
        self.errors: list[str] = []

    def settle(self, knob: KnobInfo) -> None:
        """Decide the value of one knob; all that its relations read is settled."""
        value, origin = self._unset(knob)
        given = self.given.get(knob.name)
        if given is not None:
            value, origin = self._parsed(knob, given) or (value, origin)
        if not knob.is_built_in:
            value, origin = self._turned_off(knob, *self._read(knob, value, origin))
        self.values[knob.name], self.sources[knob.name] = value, origin

    def _read(self, knob: KnobInfo, value: KnobValue, origin: Origin) -> tuple[KnobValue, Origin]:
        """Apply `ignored_unless`."""
        unless = knob.ignored_unless
        if unless is None or not origin.source.is_set or unless.holds(self.values):
            return value, origin
        why = unless.note or f"it is read only while {unless.text}"
        self._say(knob, f"{_stated(knob, value, origin)} is ignored: {why}")
        return knob.default, Origin(knob.default_source)

    def _turned_off(self, knob: KnobInfo, value: KnobValue, origin: Origin) -> tuple[KnobValue, Origin]:
        """Apply `off_with`."""
        for off in knob.off_with:
            if value != knob.declared and off.holds(self.values):
                held = show(knob, knob.declared) or "unset"
                self._say(knob, f"{_stated(knob, value, origin)} is turned off ({held} holds): {off.note or off.text}")
                return knob.declared, Origin(Source.DEFAULT)
        return value, origin

    def check(self, knob: KnobInfo) -> None:
        """Record what a settled knob lacks or cannot stand."""
        value = self.values[knob.name]
        if value == knob.declared or knob.is_built_in:
            return
        stated = _stated(knob, value, self.sources[knob.name])
        for needed in knob.requires:
            if not needed.holds(self.values):
                self.errors.append(f"{stated} requires {needed.text}{_after(needed.note)}{self._now(needed.reads)}")
        for against in knob.conflicts:
            if against.holds(self.values):
                self.errors.append(
                    f"{stated} conflicts with {against.text}{_after(against.note)}{self._now(against.reads)}"
                )

    def _unset(self, knob: KnobInfo) -> tuple[KnobValue, Origin]:
        """Return what holds while nobody sets the knob."""
        if not knob.is_built_in:
            for by, implication in self.implications.get(knob.name, ()):
                if implication.when.holds(self.values):
                    return implication.value, Origin(Source.IMPLIED, f"by {by.name}")
        return knob.default, Origin(knob.default_source)

    def _parsed(self, knob: KnobInfo, given: Given) -> tuple[KnobValue, Origin] | None:
        """Return the given value; None, with a finding, when it is not taken."""
        try:
            value = parse(knob, given.text)
        except KnobError as why:
            message = f"{why} ({given.origin})"
            if knob.invalid == "error":
                self.errors.append(message)
            else:
                held = show(knob, self._unset(knob)[0])
                self._say(knob, f"{message}; {f'the default {held} holds' if held else 'it is off, as when unset'}")
            return None
        if knob.is_built_in:
            if value != knob.default:
                self._say(knob, _built_in(knob, value, given.origin))
            return None
        return value, given.origin

    def _now(self, names: Sequence[str]) -> str:
        """Tell the values that a relation saw, e.g. ` (pool.pin is auto)`."""
        seen = [f"{name} is {show(self.knobs[name], self.values[name]) or 'unset'}" for name in names]
        return f" ({', '.join(seen)})" if seen else ""

    def _say(self, knob: KnobInfo, line: str) -> None:
        self.lines.setdefault(knob.name, []).append(line)


def _stated(knob: KnobInfo, value: KnobValue, origin: Origin) -> str:
    return f"{knob.name}={show(knob, value)} ({origin})"


def _after(note: str) -> str:
    return f": {note}" if note else ""


def _built_in(knob: KnobInfo, value: KnobValue, origin: Origin) -> str:
    return (
        f"{_stated(knob, value, origin)} has no effect: {show(knob, knob.default) or '(unset)'} is built in; "
        f"rebuild with 'strata-gen build --set {knob.name}={show(knob, value)}'"
    )
