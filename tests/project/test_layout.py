"""The shape of the repository: two packages that do not need each other, and files that belong in it."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

MAX_FILE_BYTES = 25_000_000
MAX_TEMPLATE_LINES = 150
MAX_MEDIAN_TEMPLATE_LINES = 40

IMPORT_ALL = """
import importlib, pkgutil, sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            raise ModuleNotFoundError(f"blocked: {{name}}", name=name)

sys.meta_path.insert(0, Blocker())
package = importlib.import_module({package!r})
for module in pkgutil.walk_packages(package.__path__, {package!r} + "."):
    if not module.name.startswith({apart!r}):
        importlib.import_module(module.name)
"""

SERVER = {"fastapi", "prometheus_client", "pydantic", "starlette", "uvicorn"}
TEMPLATES = {"jinja2", "yaml", "pybind11", "cmake", "ninja"}


@pytest.mark.parametrize(
    ("package", "blocked", "apart"),
    [
        ("strata_gen", {"torch", "numpy", "tokenizers", "safetensors", "transformers", "strata_runtime"}, ()),
        ("strata_runtime", {*TEMPLATES, *SERVER, "transformers", "strata_gen"}, ("strata_runtime.serve.",)),
    ],
)
def test_every_module_imports_without_what_the_other_package_or_an_extra_needs(
    package: str, blocked: set[str], apart: tuple[str, ...], root: Path
) -> None:
    script = IMPORT_ALL.format(blocked=blocked, package=package, apart=apart)
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


@pytest.mark.parametrize(
    ("folder", "other"), [("generator/strata_gen", "strata_runtime"), ("runtime/strata_runtime", "strata_gen")]
)
def test_the_packages_do_not_import_each_other(folder: str, other: str, root: Path) -> None:
    modules = list((root / folder).rglob("*.py"))
    assert len(modules) > 10
    guilty = [path for path in modules if any(name.partition(".")[0] == other for name in imported_names(path))]
    assert guilty == []


def test_the_output_folder_is_not_a_package(root: Path) -> None:
    # It would shadow `python -m build`.
    assert not (root / "build" / "__init__.py").exists()


def test_nothing_of_the_output_folder_is_tracked(tracked: tuple[Path, ...], root: Path) -> None:
    assert [path for path in tracked if path.is_relative_to(root / "build")] == []


def test_templates_are_short(root: Path) -> None:
    lines = {path.name: len(path.read_text().splitlines()) for path in (root / "templates").rglob("*.j2")}
    assert {name: count for name, count in lines.items() if count > MAX_TEMPLATE_LINES} == {}
    assert statistics.median(lines.values()) < MAX_MEDIAN_TEMPLATE_LINES


def test_tracked_files_are_small(tracked: tuple[Path, ...]) -> None:
    assert [path for path in tracked if path.stat().st_size >= MAX_FILE_BYTES] == []


# Put together from parts, so that this file does not hold what it looks for.
MACHINE_PATHS = tuple(f"/{folder}/" for folder in ("work", "root"))
REGISTRY_HOSTS = ("pypi" + ".org", "python" + "hosted.org", "download.pytorch" + ".org")


@pytest.mark.parametrize("needle", [*MACHINE_PATHS, *REGISTRY_HOSTS])
def test_tracked_files_name_no_machine_path_and_no_registry(needle: str, tracked: tuple[Path, ...]) -> None:
    assert [path for path in tracked if needle.encode() in path.read_bytes()] == []
