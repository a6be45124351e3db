"""Modules import downwards: the layers of DESIGN.md, read from there and compared with the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGES = {"strata_gen": Path("generator/strata_gen"), "strata_runtime": Path("runtime/strata_runtime")}

# What the package's own `__init__` imports is for its users. Its version is for everybody.
DOOR = "__init__"


def layers(root: Path, package: str) -> list[list[str]]:
    """The layers of DESIGN.md, lowest first: a line each in the block that the package's name opens."""
    text = (root / "DESIGN.md").read_text(encoding="utf-8")
    block = re.search(rf"^```\n{package}, from the bottom up:\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    return [line.split() for line in block[1].splitlines()]


def modules_of(folder: Path) -> dict[str, Path]:
    """Dotted names inside the package; `name.__init__` for a folder's own module."""
    return {".".join(path.relative_to(folder).with_suffix("").parts): path for path in folder.rglob("*.py")}


def named_modules(node: ast.stmt | ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == package:
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports(path: Path, package: str, modules: dict[str, Path]) -> Iterator[str]:
    """Modules of the package that `path` imports, wherever in it: inside functions and for type checkers too."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        for name in named_modules(node, package):
            inside = name.removeprefix(f"{package}.")
            candidates = (inside, f"{inside}.{DOOR}", inside.rpartition(".")[0], f"{inside.rpartition('.')[0]}.{DOOR}")
            yield from [module for module in candidates if module in modules][:1]


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def graph(package: str, root: Path) -> dict[str, set[str]]:
    modules = modules_of(root / PACKAGES[package])
    found = {name: set(imports(path, package, modules)) - {name} for name, path in modules.items() if name != DOOR}
    assert sum(map(len, found.values())) > 100
    return found


def test_every_module_has_one_layer(package: str, root: Path, graph: dict[str, set[str]]) -> None:
    listed = [name for layer in layers(root, package) for name in layer]
    assert sorted(listed) == sorted({module.partition(".")[0] for module in graph})


def test_no_module_imports_upwards(package: str, root: Path, graph: dict[str, set[str]]) -> None:
    height = {name: height for height, layer in enumerate(layers(root, package)) for name in layer}
    pairs = ((module, used) for module, uses in graph.items() for used in uses)
    tops = [(module, used, height[module.partition(".")[0]], height[used.partition(".")[0]]) for module, used in pairs]
    assert [f"{module} imports {used}" for module, used, own, other in tops if other > own] == []


def test_no_modules_import_each_other_in_a_circle(graph: dict[str, set[str]]) -> None:
    assert len(list(TopologicalSorter(graph).static_order())) >= len(graph)
