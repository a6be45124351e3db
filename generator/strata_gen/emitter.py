"""The contract between slices and the renderer: a slice prepares a view, the renderer turns it into a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from strata_gen.resolve import Plan


@dataclass(frozen=True, slots=True)
class GeneratedFile:
    """One emitted file. `path` is relative to the tree, with forward slashes.

    `sources` name the spec files that it depends on; `template` is empty for a copy of a hand-written file, whose
    path in the project is `origin` then. Both are for the manifest, and for the paths in compiler messages.
    """

    path: str
    text: str
    sources: tuple[str, ...]
    template: str = ""
    origin: str = ""


@dataclass(frozen=True, slots=True)
class Emitter:
    """One template, and the views to render it with.

    `views(plan)` returns pairs of output path and a frozen dataclass; the template sees exactly its fields (plus
    `banner`). Several pairs render the template several times; none means that the target has no such file.
    `sources(plan)` names the spec files that the output depends on, for the banner and manifest.

    Where a file goes decides what is done with it: `include/` is on the include path, `src/*.cpp` is compiled,
    `src/levels/<isa>/*.cpp` is compiled with the flags of the level of that `isa`, `python/` becomes the package's
    content.
    """

    template: str
    views: Callable[[Plan], tuple[tuple[str, Any], ...]]
    sources: Callable[[Plan], tuple[str, ...]]
