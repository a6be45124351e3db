"""The checkout's two Python packages as wheels: the runtime, and the generator with all that it builds from."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from strata_gen.errors import GeneratorError
from strata_gen.paths import DATA_FOLDER
from strata_gen.wheel.archive import Wheel, entry_points
from strata_gen.wheel.metadata import LICENSE_FILE, metadata_text

_TAG = "py3-none-any"
_PACKAGED = (".py", ".pyi", ".typed", ".html")


@dataclass(frozen=True, slots=True)
class _Distribution:
    """What pyproject.toml says of one wheel; `data` are patterns of what lies beside the package."""

    name: str
    summary: str
    package: str
    scripts: tuple[str, ...]
    dependencies: tuple[str, ...]
    extras: tuple[str, ...]
    data: tuple[str, ...]


def _distribution(table: Mapping[str, Any]) -> _Distribution:
    lists = (tuple(table.get(key, ())) for key in ("scripts", "dependencies", "extras", "data"))
    return _Distribution(str(table["name"]), str(table["summary"]), str(table["package"]), *lists)


def _files_below(folder: Path) -> Iterator[Path]:
    found = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return (path for path in sorted(found) if not path.name.startswith("."))


def _package_files(root: Path, package: str) -> dict[str, bytes]:
    folder = root / package
    files = (path for path in _files_below(folder) if path.suffix in _PACKAGED)
    return {path.relative_to(folder.parent).as_posix(): path.read_bytes() for path in files}


def _data_files(root: Path, package: str, data: tuple[str, ...]) -> dict[str, bytes]:
    prefix = f"{Path(package).name}/{DATA_FOLDER}"
    found = [match for pattern in data for match in sorted(root.glob(pattern))]
    paths = [path for match in found for path in ((match,) if match.is_file() else _files_below(match))]
    return {f"{prefix}/{path.relative_to(root).as_posix()}": path.read_bytes() for path in paths}


def _requirements(declared: list[str], names: tuple[str, ...], where: Path) -> list[str]:
    by_name = {re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]: requirement for requirement in declared}
    if missing := [name for name in names if name not in by_name]:
        raise GeneratorError(f"'{missing[0]}' is not among the dependencies of the project", where=str(where))
    return [by_name[name] for name in names]


def project_wheel(root: Path, key: str) -> Wheel:
    """Return the wheel that `tool.strata.<key>` of the checkout's pyproject.toml describes: `core` or `generator`."""
    path = root / "pyproject.toml"
    pyproject = tomllib.loads(path.read_text(encoding="utf-8"))
    project, made = pyproject["project"], _distribution(pyproject["tool"]["strata"][key])
    requires = _requirements(project["dependencies"], made.dependencies, path)
    extras = {extra: project["optional-dependencies"][extra] for extra in made.extras}
    readme = (root / project["readme"]).read_text(encoding="utf-8")
    scripts = {script: project["scripts"][script] for script in made.scripts}
    information = {
        "METADATA": metadata_text(made.name, project["version"], made.summary, requires, extras, readme),
        "entry_points.txt": entry_points({"console_scripts": scripts}),
        f"licenses/{LICENSE_FILE}": (root / LICENSE_FILE).read_bytes(),
    }
    files = {**_package_files(root, made.package), **_data_files(root, made.package, made.data)}
    return Wheel(made.name, project["version"], _TAG, files, information)
