"""The range, choices and default of one knob entry, proven to fit one another."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from strata_gen.diagnostics import Note, Sink, Span
from strata_gen.load.document import DataPath, Document
from strata_gen.model.knob import KnobType, KnobValue, Range
from strata_gen.model.values import NUMERIC, BadValue, check_value, read_value

_CHOICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]*")
_WORD = re.compile(r"[a-z]+(_[a-z]+)*")  # never a number, whatever the type


class ValueReader:
    """Reads what the values of one knob may be. `path` leads to the knob's entry in the document."""

    def __init__(self, name: str, kind: KnobType, document: Document, path: DataPath, sink: Sink) -> None:
        self.name, self.kind, self.document, self.path, self.sink = name, kind, document, path, sink

    def _at(self, *path: str | int) -> Span:
        return self.document.at(*self.path, *path)

    def _error(self, code: str, message: str, span: Span, hint: str = "", notes: tuple[Note, ...] = ()) -> None:
        self.sink.error(code, f"{message} in knob '{self.name}'", span, hint, notes)

    def _bound(self, key: str, raw: object) -> int | float | None:
        kind = KnobType.INT if key == "multiple_of" and self.kind is KnobType.FLOAT else self.kind
        try:
            value = read_value(raw, kind)
        except BadValue as problem:
            self._error("K024", f"'{key}': {problem}", self._at("range", key), problem.hint)
            return None
        if key == "multiple_of" and isinstance(value, int) and value <= 0:
            self._error("K024", "'multiple_of' must be above 0", self._at("range", key))
            return None
        return value if isinstance(value, int | float) else None

    def range(self, given: Mapping[str, Any] | None) -> Range:
        """Return the range; no bounds when there is none, or when it was reported to be wrong."""
        if given is None:
            return Range()
        if self.kind not in NUMERIC:
            span = self.document.key_at(*self.path, "range")
            self._error("K024", f"a knob of type {self.kind} has no range", span, "only numbers have one")
            return Range()
        bounds = {key: self._bound(key, raw) for key, raw in given.items() if raw is not None}
        if None in bounds.values():
            return Range()
        limits = Range(
            minimum=bounds.get("min"),
            maximum=bounds.get("max"),
            above=bounds.get("above"),
            below=bounds.get("below"),
            multiple_of=int(step) if (step := bounds.get("multiple_of")) is not None else None,
        )
        for exclusive, inclusive in (("above", "min"), ("below", "max")):
            if exclusive in bounds and inclusive in bounds:
                self._error("K024", f"'{inclusive}' and '{exclusive}' bound the same end", self._at("range", exclusive))
                return Range()
        if self._is_empty(limits):
            self._error("K024", "no value is in the range", self._at("range"))
            return Range()
        return limits

    def _is_empty(self, limits: Range) -> bool:
        low, high = limits.minimum, limits.maximum
        if self.kind is not KnobType.FLOAT:
            low = limits.above + 1 if limits.above is not None else low
            high = limits.below - 1 if limits.below is not None else high
            if low is not None and high is not None and limits.multiple_of:
                low = -(-low // limits.multiple_of) * limits.multiple_of
        elif limits.above is not None or limits.below is not None:
            low = limits.above if limits.above is not None else low
            high = limits.below if limits.below is not None else high
            return low is not None and high is not None and low >= high
        return low is not None and high is not None and low > high

    def choices(self, given: Sequence[str] | None) -> tuple[str, ...]:
        """Return the choices of an enum; () for every other type."""
        if self.kind is not KnobType.ENUM:
            if given is not None:
                span = self.document.key_at(*self.path, "choices")
                self._error("K026", f"a knob of type {self.kind} has no choices", span, "only an enum has them")
            return ()
        if not given:
            self._error("K026", "an enum needs choices", self._at("type"), "list them under 'choices'")
            return ()
        first: dict[str, int] = {}
        for index, choice in enumerate(given):
            span = self._at("choices", index)
            if not _CHOICE.fullmatch(choice):
                self._error("K026", f"choice '{choice}' is not a word", span, "letters, digits and _ . + -")
            # Choices become enumerators, where case and punctuation do not tell them apart.
            alike = first.setdefault(re.sub(r"[^a-z0-9]", "_", choice.lower()), index)
            if alike != index:
                note = Note("the other one", self._at("choices", alike))
                self._error("K026", f"choice '{choice}' is too much like '{given[alike]}'", span, notes=(note,))
        return tuple(given)

    def words(self, given: Mapping[str, Any] | None) -> dict[str, int | float]:
        """Return what words stand for, without those that were reported to be wrong."""
        if given is None:
            return {}
        if self.kind not in NUMERIC:
            span = self.document.key_at(*self.path, "words")
            self._error("K029", f"a knob of type {self.kind} has no words for values", span, "only numbers have them")
            return {}
        found: dict[str, int | float] = {}
        for word, raw in given.items():
            try:
                value = read_value(raw, self.kind)
            except BadValue as problem:
                self._error("K029", f"'{word}': {problem}", self._at("words", word), problem.hint)
                continue
            if not _WORD.fullmatch(word):
                span = self.document.key_at(*self.path, "words", word)
                self._error("K029", f"'{word}' is not a word", span, "lowercase letters, joined by single '_'")
            elif value in found.values():
                self._error("K029", f"'{word}' stands for what another word does", self._at("words", word))
            elif isinstance(value, int | float):
                found[word] = value
        return found

    def default(
        self, raw: object, limits: Range, choices: Sequence[str], words: Mapping[str, int | float]
    ) -> KnobValue:
        """Return the default, reporting one that the type, range or choices refuse; None (unset) always fits."""
        if isinstance(raw, str) and raw in words:
            return words[raw]
        span = self._at("default")
        try:
            value = read_value(raw, self.kind)
        except BadValue as problem:
            hint = problem.hint or (f"allowed too: {', '.join(words)}" if words else "")
            self._error("K022", f"'default': {problem}", span, hint)
            return None
        try:
            if choices or self.kind is not KnobType.ENUM:
                check_value(value, self.kind, limits, choices)
        except BadValue as problem:
            self._error("K023", f"'default': {problem}", span, problem.hint)
        return value
