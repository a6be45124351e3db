"""Where the output of one target lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from strata_gen.paths import default_out
from strata_gen.resolve import Plan


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one target under an output folder: `<out>/<backend>/<arch>/{tree,cmake,package,logs}`."""

    root: Path

    @property
    def tree(self) -> Path:
        """Emitted sources, complete in themselves."""
        return self.root / "tree"

    @property
    def cmake(self) -> Path:
        """CMake's and Ninja's working folder."""
        return self.root / "cmake"

    @property
    def package(self) -> Path:
        """The folder to put on `sys.path`: it holds the importable package."""
        return self.root / "package"

    @property
    def logs(self) -> Path:
        """Full output of CMake, Ninja and the import check."""
        return self.root / "logs"

    @property
    def lock(self) -> Path:
        """The file whose OS lock a builder of this target holds."""
        return self.root / "build.lock"


def layout_of(plan: Plan, out: Path | None = None) -> Layout:
    """Return the layout of a plan's target under `out` (default: `default_out()`)."""
    return Layout((out or default_out()) / plan.target.backend / plan.target.name)


def shown(path: Path) -> str:
    """Return a path as a user would type it: relative when it lies under the working directory."""
    here = Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else str(path)
