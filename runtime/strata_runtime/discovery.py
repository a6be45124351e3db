"""Where kernels packages may be: installed distributions, and the build folders of the checkout and of here."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path

from strata_runtime.manifest import MANIFEST

ENTRY_POINTS = "strata.kernels"


@dataclass(frozen=True, slots=True)
class Found:
    """A package's folder, and the distributions that own it, as `name version`: none for what was only built."""

    folder: Path
    distributions: tuple[str, ...] = ()

    @property
    def clash(self) -> str:
        """What is wrong when several distributions own one import name; empty when that is not so."""
        if len(self.distributions) < 2:
            return ""
        names = [each.partition(" ")[0] for each in self.distributions]
        return (
            f"{self.folder.name} belongs to {len(names)} installed distributions, {' and '.join(self.distributions)}, "
            f"so each overwrites the others' files: pip uninstall {' '.join(names)}, then install one of them"
        )


def installed() -> Iterator[Found]:
    """Yield the packages that installed distributions name, by import name. They are found, and not imported."""
    owners: dict[str, list[str]] = {}
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: point.name):
        owned = owners.setdefault(point.module, [])
        if point.dist is not None:
            owned.append(f"{point.dist.name} {point.dist.version}")
    for name, distributions in owners.items():
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            yield Found(Path(next(iter(spec.submodule_search_locations))), tuple(sorted(set(distributions))))


def checkout() -> Path | None:
    """Return the checkout that this package is part of; None when it was installed from a wheel."""
    root = Path(__file__).resolve().parents[2]
    return root if (root / "pyproject.toml").is_file() else None


def extra_command(extra: str) -> str:
    """Return the command that installs the packages of one of the project's extras."""
    distribution = "strata-runtime" if checkout() is None else "strata-gen"
    return f"pip install '{distribution}[{extra}]'"


def built() -> Iterator[Found]:
    """Yield the packages in the build folder of the checkout, then in that of the working directory."""
    for root in dict.fromkeys(filter(None, (checkout(), Path.cwd()))):
        folders = (path.parent for path in root.glob(f"build/*/*/package/*/{MANIFEST}"))
        # What was moved aside has a suffix.
        yield from (Found(folder) for folder in sorted(folders) if folder.name.isidentifier())
