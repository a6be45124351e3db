"""What every spec kind shares at the edge: strict pydantic models, and their errors as diagnostics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, Generic, TypeVar
from unicodedata import category

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from strata_gen.diagnostics import Sink
from strata_gen.edge.problems import report
from strata_gen.load.document import Document

_NOT_IN_A_LINE = frozenset({"Cc", "Cs", "Zl", "Zp"})  # control characters, halves of characters, ends of lines


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        yield from _texts([*value, *value.values()])
    elif isinstance(value, Sequence):
        for each in value:
            yield from _texts(each)


def _check_lines(text: str, of_lines: bool) -> None:
    lines = text.split("\n")
    if len(lines) > 1 and not of_lines:
        raise PydanticCustomError("text_lines", "")
    strange = next((character for line in lines for character in line if category(character) in _NOT_IN_A_LINE), None)
    if strange is not None:
        raise PydanticCustomError("text_character", "", {"character": f"U+{ord(strange):04X}"})
    if any(line.rstrip().endswith("\\") for line in lines):
        raise PydanticCustomError("text_backslash", "")


class Edge(BaseModel):
    """Base of all edge models: unknown keys are errors, nothing is coerced, instances are frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    of_lines: ClassVar[frozenset[str]] = frozenset()
    """Keys whose text may have several lines."""

    of_values: ClassVar[frozenset[str]] = frozenset()
    """Keys of any value, which is escaped wherever it is written."""

    @field_validator("*")
    @classmethod
    def _check_text(cls, value: object, info: ValidationInfo) -> object:
        """Text ends up in comments of generated code, which must not end early or go on in the next line."""
        for text in _texts(value) if info.field_name not in cls.of_values else ():
            _check_lines(text, info.field_name in cls.of_lines)
        return value


Text = Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]
"""Text that may look like a number: `since: 8.10` stays `8.10`, as the loader's numbers print as they were written."""

EdgeT = TypeVar("EdgeT", bound=Edge)
ModelT = TypeVar("ModelT")


@dataclass(frozen=True)
class SpecKind(Generic[EdgeT, ModelT]):
    """One kind of spec: its folder under `specs/`, its edge model, and how an edge becomes frozen model objects.

    `prefix` begins its diagnostic codes; `convert(files, sink)` takes the edges of all files with their documents, and
    reports what they can be wrong about beyond shape; checks that need other kinds belong to `strata_gen.model.check`.
    """

    name: str
    folder: str
    prefix: str
    edge: type[EdgeT]
    convert: Callable[[Sequence[tuple[EdgeT, Document]], Sink], tuple[ModelT, ...]]


def file_by_file(
    convert: Callable[[EdgeT, Document, Sink], tuple[ModelT, ...]],
) -> Callable[[Sequence[tuple[EdgeT, Document]], Sink], tuple[ModelT, ...]]:
    """Return the conversion of a kind whose files know nothing of each other."""

    def convert_all(files: Sequence[tuple[EdgeT, Document]], sink: Sink) -> tuple[ModelT, ...]:
        return tuple(model for edge, document in files for model in convert(edge, document, sink))

    return convert_all


def read_edges(kind: SpecKind[EdgeT, ModelT], documents: Iterable[Document], sink: Sink) -> tuple[ModelT, ...]:
    """Validate documents as `kind` and convert those whose shape is right."""
    files: list[tuple[EdgeT, Document]] = []
    for document in documents:
        try:
            files.append((kind.edge.model_validate(document.data), document))
        except ValidationError as problem:
            report(problem.errors(include_url=False), kind.edge, kind.name, kind.prefix, document, sink)
    return kind.convert(files, sink)
