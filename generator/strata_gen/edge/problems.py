"""The single translation of pydantic's errors into diagnostics with stable codes, places and plain words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from strata_gen.diagnostics import Sink, did_you_mean
from strata_gen.load.document import DataPath, Document
from strata_gen.load.scalars import WrittenFloat, WrittenInt

MISSING, TYPE, UNKNOWN, CHOICE, LIMIT, OTHER = "010", "011", "012", "013", "014", "015"
"""Numbers that every kind's prefix is joined with; a kind's own codes begin at 020."""

_TYPE_WORDS: Mapping[str, str] = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "string_type": "text",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}

_YAML_WORDS: Mapping[type, str] = {
    bool: "true or false",
    WrittenInt: "a whole number",
    WrittenFloat: "a number",
    str: "text",
    list: "a list",
    dict: "a mapping",
    type(None): "nothing",
}

# pydantic error type -> what the value must be, from the error's context.
_LIMIT_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "greater_than": lambda context: f"must be above {_number(context['gt'])}",
    "greater_than_equal": lambda context: f"must be at least {_number(context['ge'])}",
    "less_than": lambda context: f"must be below {_number(context['lt'])}",
    "less_than_equal": lambda context: f"must be at most {_number(context['le'])}",
    "multiple_of": lambda context: f"must be a multiple of {context['multiple_of']}",
    "too_short": lambda context: f"must have at least {_counted(context['min_length'], 'item')}",
    "too_long": lambda context: f"must have at most {_counted(context['max_length'], 'item')}",
    "string_too_short": lambda context: f"must have at least {_counted(context['min_length'], 'character')}",
    "string_too_long": lambda context: f"must have at most {_counted(context['max_length'], 'character')}",
    "string_pattern_mismatch": lambda context: f"must have the form {context['pattern']}",
    "finite_number": lambda _: "must be a finite number",
}

# The same for what no JSON Schema says of text.
_TEXT_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "text_lines": lambda _: "must be one line (after '>-' several are folded into one)",
    "text_character": lambda context: f"must not have the character {context['character']}",
    "text_backslash": lambda _: "must not end a line with a backslash",
}

_BOOLISH = frozenset({"yes", "no", "on", "off", "y", "n"})


def _number(bound: float) -> str:
    return str(int(bound)) if bound == int(bound) else str(bound)


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


@dataclass(frozen=True, slots=True)
class _Problem:
    """One pydantic error. `path` leads to the deepest value that is in the file, `rest` is pydantic's beyond it."""

    type: str
    path: DataPath
    rest: tuple[int | str, ...]
    context: Mapping[str, Any]
    message: str

    @property
    def number(self) -> str:
        if self.type in _TYPE_WORDS:
            return TYPE
        if self.type in _LIMIT_WORDS:
            return LIMIT
        known = {"missing": MISSING, "extra_forbidden": UNKNOWN, "enum": CHOICE, "literal_error": CHOICE}
        return known.get(self.type, OTHER)

    @property
    def key(self) -> str:
        """The key that is missing, or that the path ends with."""
        return str(self.rest[-1] if self.type == "missing" else self.path[-1])


def _problem(error: ErrorDetails, document: Document) -> _Problem:
    # Locations also hold the names of union members and validators, which are no part of the data.
    path: DataPath = ()
    rest: tuple[int | str, ...] = ()
    for part in error["loc"]:
        if (*path, part) in document.places:
            path = (*path, part)
        else:
            rest = (*rest, part)
    context = error.get("ctx", {})
    # The tag of a union is a key like any other to who writes the file.
    if error["type"] == "union_tag_not_found":
        return _Problem("missing", path, (*rest, context["discriminator"].strip("'")), context, error["msg"])
    if error["type"] == "union_tag_invalid":
        tag = context["discriminator"].strip("'")
        return _Problem("literal_error", (*path, tag), rest, {"expected": context["expected_tags"]}, error["msg"])
    return _Problem(error["type"], path, rest, context, error["msg"])


def _without_union_noise(problems: Sequence[_Problem]) -> Iterator[_Problem]:
    """Of a union's errors (one set per member), keep the member that has the right basic type, if there is one."""
    wrong_type: dict[DataPath, list[_Problem]] = {}
    for problem in problems:
        if problem.number == TYPE and problem.rest:
            wrong_type.setdefault(problem.path, []).append(problem)
    for problem in problems:
        members = wrong_type.get(problem.path, [])
        if problem not in members:
            yield problem
            continue
        matched = any(
            other not in members and other.path[: len(problem.path)] == problem.path and other.rest
            for other in problems
        )
        if problem is members[0] and not matched:
            words = dict.fromkeys(_TYPE_WORDS[member.type] for member in members)
            if "a number" in words:
                words.pop("a whole number", None)
            yield _Problem("union", problem.path, problem.rest, {"words": " or ".join(words)}, problem.message)


def _models_at(edge: type[BaseModel], path: DataPath) -> list[type[BaseModel]]:
    """Edge models that the value at `path` may be."""
    current: list[type[BaseModel]] = [edge]
    for part in path:
        if isinstance(part, str):
            fields = [model.model_fields[part].annotation for model in current if part in model.model_fields]
            current = [model for annotation in fields for model in _models_in(annotation)]
    return current


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in getattr(annotation, "__args__", ()):
        yield from _models_in(argument)


def _keys_at(edge: type[BaseModel], path: DataPath) -> list[str]:
    return [field.alias or name for model in _models_at(edge, path) for name, field in model.model_fields.items()]


class _Reporter:
    def __init__(self, edge: type[BaseModel], kind: str, prefix: str, document: Document, sink: Sink) -> None:
        self.edge, self.kind, self.prefix, self.document, self.sink = edge, kind, prefix, document, sink

    def inside(self, path: DataPath) -> str:
        """Name what encloses an error: ` in knob 'verify.ecap'`, by the outermost mapping with a name."""
        for depth in range(len(path) + 1):
            name = self.document.get(*path[:depth], "name")
            if isinstance(name, str):
                return f" in {self.kind} '{name}'"
        return f" in {self.place(path)}" if path else f" in a {self.kind} file"

    def place(self, path: DataPath) -> str:
        """Write a path as words: `'range'`, `item 2 of 'choices'`, `the file`."""
        if not path:
            return "the file"
        last = path[-1]
        return f"item {last + 1} of {self.place(path[:-1])}" if isinstance(last, int) else f"'{last}'"

    def unknown_key_meant(self, problems: Sequence[_Problem]) -> dict[DataPath, str]:
        """Path of every unknown key to the known key that it most likely misspells."""
        found = {}
        for problem in problems:
            if problem.type == "extra_forbidden":
                hint = did_you_mean(problem.key, _keys_at(self.edge, problem.path[:-1]))
                if match := re.search(r"'(.+)'", hint):
                    found[problem.path] = match.group(1)
        return found

    def report(self, problems: Sequence[_Problem]) -> None:
        meant = self.unknown_key_meant(problems)
        misspelt = {(path[:-1], key) for path, key in meant.items()}
        missing: dict[DataPath, list[str]] = {}
        for problem in problems:
            if problem.type != "missing":
                self.one(problem, meant.get(problem.path, ""))
            # A misspelt obligatory key is one mistake, not two.
            elif (problem.path, problem.key) not in misspelt:
                missing.setdefault(problem.path, []).append(problem.key)
        for path, keys in missing.items():
            quoted = ", ".join(f"'{key}'" for key in keys)
            message = f"missing key{'s' if len(keys) > 1 else ''} {quoted}{self.inside(path)}"
            self.sink.error(f"{self.prefix}{MISSING}", message, self.document.key_at(*path))

    def one(self, problem: _Problem, meant: str) -> None:
        path = problem.path
        span, label = self.document.at(*path), ""
        # What the subject names already is not said again.
        outer = path
        while outer and isinstance(outer[-1], int):
            outer = outer[:-1]
        subject, inside = self.place(path), self.inside(outer[:-1]) if path else ""
        given = self.document.get(*path)
        is_word = isinstance(given, str | int | float) and not isinstance(given, bool)
        shown = f"'{given}'" if is_word else _YAML_WORDS.get(type(given), "something else")
        if problem.type == "extra_forbidden":
            span, label = self.document.key_at(*path), f"did you mean '{meant}'?" if meant else ""
            message = f"unknown key '{problem.key}'{inside}"
        elif problem.number == TYPE or problem.type == "union":
            wanted = problem.context["words"] if problem.type == "union" else _TYPE_WORDS[problem.type]
            message = f"{subject} must be {wanted}, not {_YAML_WORDS.get(type(given), 'something else')}{inside}"
            if problem.type == "bool_type" and str(given).lower() in _BOOLISH:
                label = "only true and false are booleans"
            elif problem.type == "string_type" and isinstance(given, bool):
                label = "put it in quotes if it is text"
        elif problem.number == CHOICE:
            choices = re.findall(r"'([^']*)'", problem.context["expected"])
            message = f"{subject} must be one of {', '.join(choices)}, not {shown}{inside}"
            label = did_you_mean(str(given), choices) if is_word else ""
        elif problem.number == LIMIT:
            is_empty = given in ("", []) and problem.context.get("min_length") == 1
            limit = "must not be empty" if is_empty else _LIMIT_WORDS[problem.type](problem.context)
            message = f"{subject} {limit}{inside}"
        elif problem.type in _TEXT_WORDS:
            message = f"{subject} {_TEXT_WORDS[problem.type](problem.context)}{inside}"
        else:
            text = problem.message.removeprefix("Value error, ").removeprefix("Assertion failed, ")
            message = f"{subject}: {text[:1].lower()}{text[1:]}{inside}"
        number = TYPE if problem.type == "union" else problem.number
        self.sink.error(f"{self.prefix}{number}", message, span, label)


def report(
    errors: Sequence[ErrorDetails], edge: type[BaseModel], kind: str, prefix: str, document: Document, sink: Sink
) -> None:
    """Record one diagnostic for each mistake behind pydantic's `errors` about `document`."""
    problems = list(_without_union_noise([_problem(error, document) for error in errors]))
    _Reporter(edge, kind, prefix, document, sink).report(problems)
