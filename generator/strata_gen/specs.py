"""Read whole spec folders into one validated `SpecSet`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strata_gen.diagnostics import Sink, Span
from strata_gen.edge.base import SpecKind, read_edge
from strata_gen.kinds import KINDS
from strata_gen.load.document import read_document
from strata_gen.model.check import check_specs
from strata_gen.model.specset import SpecSet


def spec_files(root: Path, kind: SpecKind[Any, Any]) -> Iterator[Path]:
    """Yield the files of one kind under a spec root, in name order."""
    yield from sorted((root / kind.folder).glob("*.yaml"))


def _read_kind(kind: SpecKind[Any, Any], roots: Sequence[Path], sink: Sink) -> tuple[Any, ...]:
    found: list[Any] = []
    for root in roots:
        for path in spec_files(root, kind):
            document = read_document(path, f"{root.name}/{kind.folder}/{path.name}", sink)
            if document is not None:
                found += read_edge(kind, document, sink)
    return tuple(sorted(found, key=lambda item: item.name))


def load_specs(roots: Sequence[Path]) -> SpecSet:
    """Read all spec folders in `roots` together. Raises `SpecErrors` with everything that is wrong."""
    sink = Sink()
    for root in roots:
        if not root.is_dir():
            sink.error("Y007", "no such spec folder", Span(str(root), 1, 1, 2))
    sink.raise_if_any()
    knobs, targets, formats, kernels, families = (_read_kind(kind, roots, sink) for kind in KINDS)
    specs = SpecSet(knobs, targets, formats, kernels, families)
    # Cross-file checks on half-read specs would blame the wrong place.
    sink.raise_if_any()
    check_specs(specs, sink)
    sink.raise_if_any()
    return specs
