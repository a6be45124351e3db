"""What every spec kind shares at the edge: strict pydantic models, and their errors as diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from strata_gen.diagnostics import Sink, Span, did_you_mean
from strata_gen.load.document import DataPath, Document
from strata_gen.load.scalars import WrittenFloat, WrittenInt


class Edge(BaseModel):
    """Base of all edge models: unknown keys are errors, nothing is coerced, instances are frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _as_written(value: object) -> object:
    return value.raw if isinstance(value, WrittenInt | WrittenFloat) else value


Text = Annotated[str, BeforeValidator(_as_written)]
"""Text that may look like a number: `since: 8.10` stays `8.10`."""

EdgeT = TypeVar("EdgeT", bound=Edge)
ModelT = TypeVar("ModelT")


@dataclass(frozen=True)
class SpecKind(Generic[EdgeT, ModelT]):
    """One kind of spec: its folder under `specs/`, its edge model, and how an edge becomes frozen model objects.

    `prefix` begins its diagnostic codes; `convert(edge, document, sink)` reports what a single file can be wrong
    about beyond shape; checks that need other files belong to `strata_gen.model.check`.
    """

    name: str
    folder: str
    prefix: str
    edge: type[EdgeT]
    convert: Callable[[EdgeT, Document, Sink], tuple[ModelT, ...]]


# pydantic error type -> number of our code; everything else is 15 ("not valid").
_NUMBERS = {
    "missing": "010",
    "extra_forbidden": "012",
    "enum": "013",
    "literal_error": "013",
    "string_pattern_mismatch": "014",
    "greater_than": "014",
    "greater_than_equal": "014",
    "less_than": "014",
    "less_than_equal": "014",
    "multiple_of": "014",
    "too_short": "014",
    "too_long": "014",
    "string_too_short": "014",
    "finite_number": "014",
}

_TYPE_WORDS = {
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


def _known_path(document: Document, loc: tuple[int | str, ...]) -> DataPath:
    """Drop from a pydantic location what is no path into the data (names of validators and union members)."""
    path: DataPath = ()
    for part in loc:
        if (*path, part) in document.places:
            path = (*path, part)
    return path


def _entity(document: Document, kind: str, path: DataPath) -> str:
    """Name what an error is inside of: ` in knob 'verify.ecap'`, by the nearest enclosing mapping with a name."""
    for depth in range(len(path), -1, -1):
        name = document.get(*path[:depth], "name")
        if isinstance(name, str):
            return f" in {kind} '{name}'"
    return f" in a {kind} file" if not path else f" in '{'.'.join(str(p) for p in path)}'"


def _fields_at(edge: type[BaseModel], path: DataPath) -> list[str]:
    """Field names of the edge model that `path` leads to, for did-you-mean."""
    current: Any = edge
    for part in path:
        if isinstance(part, int):
            continue
        field = current.model_fields.get(part) if _is_model(current) else None
        if field is None:
            return []
        current = _inner_model(field.annotation)
    return [f.alias or name for name, f in current.model_fields.items()] if _is_model(current) else []


def _is_model(candidate: Any) -> bool:
    return isinstance(candidate, type) and issubclass(candidate, BaseModel)


def _inner_model(annotation: Any) -> Any:
    if _is_model(annotation):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        if (found := _inner_model(argument)) is not None:
            return found
    return None


def _report(error: ErrorDetails, kind: SpecKind[Any, Any], document: Document, sink: Sink) -> None:
    error_type, loc = error["type"], error["loc"]
    path = _known_path(document, loc)
    number = "011" if error_type in _TYPE_WORDS else _NUMBERS.get(error_type, "015")
    code = f"{kind.prefix}{number}"
    key = str(loc[-1]) if loc else ""
    # A key's own errors belong to what encloses it; an item of a list keeps its index.
    inside = _entity(document, kind.name, path[:-1] if path and path[-1] == key else path)
    label = ""
    span: Span = document.at(*path)
    if error_type == "missing":
        message = f"missing key '{key}'{inside}"
        span = document.key_at(*path)
    elif error_type == "extra_forbidden":
        message = f"unknown key '{key}'{inside}"
        span, label = document.key_at(*path), did_you_mean(key, _fields_at(kind.edge, path[:-1]))
    elif error_type in _TYPE_WORDS:
        given = _YAML_WORDS.get(type(document.get(*path)), "something else")
        message = f"'{key}' must be {_TYPE_WORDS[error_type]}, not {given}{inside}"
    elif error_type in ("enum", "literal_error"):
        expected = error["ctx"]["expected"].replace(" or ", ", ")
        choices = [word.strip(" '") for word in expected.split(",")]
        message = f"'{key}' is not one of {', '.join(choices)}{inside}"
        label = did_you_mean(str(error["input"]), choices)
    else:
        message = f"'{key}': {error['msg'][:1].lower()}{error['msg'][1:].removeprefix('alue error, ')}{inside}"
    sink.error(code, message, span, label)


def read_edge(kind: SpecKind[EdgeT, ModelT], document: Document, sink: Sink) -> tuple[ModelT, ...]:
    """Validate one document as `kind` and convert it. Returns () when anything was wrong."""
    try:
        edge = kind.edge.model_validate(document.data)
    except ValidationError as problem:
        for error in problem.errors(include_url=False):
            _report(error, kind, document, sink)
        return ()
    return kind.convert(edge, document, sink)
