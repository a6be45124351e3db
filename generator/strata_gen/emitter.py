"""The contract between slices and the renderer: a slice prepares a view, the renderer turns it into a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strata_gen.resolve import Plan


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """One emitted file. `path` is relative to the tree; `sources` name spec files, template or original for the manifest."""

    path: str
    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Emitter:
    """One template, and the views to render it with.

    `views(plan)` returns pairs of output path and a frozen dataclass; the template sees exactly its fields (plus
    `banner`). Several pairs render the template several times; none means that the target has no such file.
    `sources(plan)` names the spec files that the output depends on, for the banner and manifest.
    """

    template: str
    views: Callable[[Plan], tuple[tuple[str, Any], ...]]
    sources: Callable[[Plan], tuple[str, ...]]
