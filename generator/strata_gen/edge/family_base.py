"""What the conversion of every section of a family shares: errors at their place, formulas, and references to keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import overload

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.edge.family_edge import FamilyEdge
from strata_gen.edge.formula import parse_condition, parse_formula
from strata_gen.load.document import DataPath, Document
from strata_gen.load.scalars import WrittenFloat, WrittenInt
from strata_gen.model.family import Condition, Formula, Json, KeyType

NUMBERS = (KeyType.INT, KeyType.FLOAT)

_PYTHON_TYPES: dict[KeyType, tuple[type, ...]] = {
    KeyType.INT: (int,),
    KeyType.FLOAT: (int, float),
    KeyType.BOOL: (bool,),
    KeyType.STR: (str,),
    KeyType.IDS: (int,),
}


@overload
def plain(value: float | None) -> float | None: ...
@overload
def plain(value: Json) -> Json: ...
def plain(value: Json) -> Json:
    """Strip the remembered text from a number of the loader."""
    if isinstance(value, WrittenInt):
        return int(value)
    return float(value) if isinstance(value, WrittenFloat) else value


@dataclass(frozen=True, slots=True)
class FamilyPart:
    """One family at the edge; `document` gives the spans, `sink` takes the findings, `at` is the family's place."""

    edge: FamilyEdge
    document: Document
    sink: Sink
    at: DataPath

    def error(self, code: str, message: str, path: DataPath, label: str = "", notes: tuple[Note, ...] = ()) -> None:
        """Report a finding at `path` of the family."""
        where = self.document.at(*self.at, *path)
        self.sink.error(code, f"{message} in family '{self.edge.name}'", where, label, notes)

    def formula(self, text: str, path: DataPath) -> Formula:
        """Parse a formula over numeric config keys."""
        try:
            formula = parse_formula(text)
        except ValueError as problem:
            self.error("M020", str(problem), path)
            return Formula(())
        for key in formula.keys:
            self.check_key(key, NUMBERS, path)
        return formula

    def maybe(self, text: str | None, path: DataPath) -> Formula | None:
        """Parse a formula that may be left out."""
        return None if text is None else self.formula(text, path)

    def condition(self, text: str, path: DataPath) -> Condition:
        """Parse a condition on a bool config key."""
        condition = parse_condition(text)
        self.check_key(condition.key, (KeyType.BOOL,), path)
        return condition

    def check_key(self, name: str, types: Sequence[KeyType], path: DataPath) -> None:
        """Report a config key that is not declared, or of none of `types`."""
        known = {key.name: key for key in self.edge.config}
        if name not in known:
            self.error("M021", f"unknown config key '{name}'", path, did_you_mean(name, known))
        elif known[name].type not in types:
            self.error("M022", f"config key '{name}' is {known[name].type}, not {' or '.join(types)}", path)

    def typed(self, value: Json, kind: KeyType, name: str, path: DataPath) -> Json:
        """Return a value for the config key `name` as the model holds it: a plain number, a float for a float key."""
        wrong_bool = isinstance(value, bool) and kind is not KeyType.BOOL
        if value is not None and (wrong_bool or not isinstance(value, _PYTHON_TYPES[kind])):
            self.error("M025", f"{path[-1]} of config key '{name}' is not {kind}", path)
            return None
        value = plain(value)
        return float(value) if kind is KeyType.FLOAT and isinstance(value, int) else value

    def check_repeats(self, what: str, values: Iterable[str | None], path: DataPath) -> None:
        """Report values that are given twice; None is not a value."""
        first: dict[str, int] = {}
        for index, value in enumerate(values):
            if value is None:
                continue
            if value in first:
                note = Note("first given here", self.document.at(*self.at, *path, first[value]))
                self.error("M031", f"{what} '{value}' is given twice", (*path, index), notes=(note,))
            first.setdefault(value, index)
