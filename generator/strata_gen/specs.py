"""Read whole spec folders into one validated `SpecSet`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from strata_gen.diagnostics import Sink, Span, did_you_mean
from strata_gen.edge.base import SpecKind, read_edges
from strata_gen.kinds import KINDS
from strata_gen.load.document import read_document
from strata_gen.model.check import check_specs
from strata_gen.model.check_knob import settle_choices, settle_implications, settle_words
from strata_gen.model.specset import SpecSet

_OTHER_FOLDERS = ("schema",)


def spec_files(root: Path, kind: SpecKind[Any, Any]) -> Iterator[Path]:
    """Yield the files of one kind under a spec root, in name order."""
    yield from sorted((root / kind.folder).glob("*.yaml"))


def root_names(roots: Sequence[Path]) -> dict[Path, str]:
    """Return how each spec root is named in messages and banners: by its last part, wherever it lies.

    A root whose name an earlier one has gets as many more of its last parts as tell them apart.
    """
    names: dict[Path, str] = {}
    for root in roots:
        parts = root.resolve().parts[1:]
        candidates = ("/".join(parts[-length:]) for length in range(1, len(parts) + 1))
        names.setdefault(root, next((name for name in candidates if name not in names.values()), root.as_posix()))
    return names


def holds_specs(root: Path) -> bool:
    """Whether a folder has a folder of some kind of spec in it."""
    return any((root / kind.folder).is_dir() for kind in KINDS)


def _is_spec_root(root: Path, sink: Sink) -> bool:
    span = Span(root.as_posix(), 1, 1, 2)
    try:
        is_folder = root.is_dir()
    except OSError as problem:  # a path that cannot be: too long, or not to be searched
        sink.error("Y007", f"cannot be read: {problem.strerror}", span)
        return False
    if not is_folder:
        sink.error("Y007", "no such spec folder", span)
        return False
    if not holds_specs(root):
        folders = ", ".join(kind.folder for kind in KINDS)
        sink.error("Y007", f"not a spec folder: it holds none of {folders}", span)
        return False
    return True


def _report_unread(root: Path, name: str, sink: Sink) -> None:
    """A file that looks like a spec and is not read would be a silent mistake."""
    folders = (*(kind.folder for kind in KINDS), *_OTHER_FOLDERS)
    for path in sorted((*root.rglob("*.yaml"), *root.rglob("*.yml"))):
        inside = path.relative_to(root)
        span = Span(f"{name}/{inside.as_posix()}", 1, 1, 2)
        folder = inside.parts[0]
        if folder not in folders:
            sink.error(
                "Y008", "not in the folder of a kind of spec, and so never read", span, did_you_mean(folder, folders)
            )
        elif folder not in _OTHER_FOLDERS and (path.suffix == ".yml" or len(inside.parts) > 2):
            why = "its name must end in .yaml" if path.suffix == ".yml" else f"it must lie in {folder}/ itself"
            sink.error("Y008", f"this file would never be read: {why}", span)


def _read_kind(kind: SpecKind[Any, Any], roots: dict[Path, str], sink: Sink) -> tuple[Any, ...]:
    documents = (
        read_document(path, f"{name}/{kind.folder}/{path.name}", sink)
        for root, name in roots.items()
        for path in spec_files(root, kind)
    )
    found = read_edges(kind, (document for document in documents if document is not None), sink)
    return tuple(sorted(found, key=lambda item: item.name))


def load_specs(roots: Sequence[Path]) -> SpecSet:
    """Read all spec folders in `roots` together. Raises `SpecErrors` with everything that is wrong."""
    sink = Sink()
    names = {root: name for root, name in root_names(roots).items() if _is_spec_root(root, sink)}
    for root, name in names.items():
        _report_unread(root, name, sink)
    knobs, targets, formats, kernels, families, protocols = (_read_kind(kind, names, sink) for kind in KINDS)
    # Cross-file checks on half-read specs would blame the wrong place.
    sink.raise_if_any()
    knobs = settle_implications(settle_words(settle_choices(knobs, formats, sink)), sink)
    specs = SpecSet(knobs, targets, formats, kernels, families, protocols)
    check_specs(specs, sink)
    sink.raise_if_any()
    return specs
