"""What every spec kind shares at the edge: strict pydantic models, and their errors as diagnostics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from strata_gen.diagnostics import Sink
from strata_gen.edge.problems import report
from strata_gen.load.document import Document


class Edge(BaseModel):
    """Base of all edge models: unknown keys are errors, nothing is coerced, instances are frozen."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Text = Annotated[str, Field(strict=False, coerce_numbers_to_str=True)]
"""Text that may look like a number: `since: 8.10` stays `8.10`, as the loader's numbers print as they were written."""

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


def read_edge(kind: SpecKind[EdgeT, ModelT], document: Document, sink: Sink) -> tuple[ModelT, ...]:
    """Validate one document as `kind` and convert it. Returns () when its shape was wrong."""
    try:
        edge = kind.edge.model_validate(document.data)
    except ValidationError as problem:
        report(problem.errors(include_url=False), kind.edge, kind.name, kind.prefix, document, sink)
        return ()
    return kind.convert(edge, document, sink)
