"""What a build would do, found out without writing anything."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from strata_gen.artifact import damage, read_facts
from strata_gen.build import refuse_without_package, target_toolchain
from strata_gen.cache import ArtifactCache, cache_root
from strata_gen.errors import GeneratorError
from strata_gen.jobs import default_jobs
from strata_gen.key import build_key, key_of, key_parts
from strata_gen.layout import Layout
from strata_gen.native_build import NativeBuild
from strata_gen.progress import Reporter
from strata_gen.record import Estimate, estimate
from strata_gen.tools import find_tool
from strata_gen.tree import Tree
from strata_gen.views.package import SOURCES, is_gpu_source, is_native_source, level_of
from strata_gen.write import TreeChanges, compare_tree

_DEPS_OF = re.compile(r"^CMakeFiles/[^/]+\.dir/(\S+)\.o: #deps")


@dataclass(frozen=True, slots=True)
class Recompile:
    """One source that would be compiled, and the inputs that are the reason."""

    source: str
    because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Whether a package is cached, and if not the parts of the key that differ from the nearest entry, `nearest`."""

    target: str
    key: str
    cached: bool
    nearest: str
    differs: tuple[str, ...]

    def render(self) -> str:
        """Return it in words."""
        head = f"{self.target}: key {self.key[:12]}"
        if self.cached:
            return f"{head} is cached"
        if not self.nearest:
            return f"{head} is not cached, and neither is another build of this target"
        lines = (f"  {part}" for part in self.differs)
        return "\n".join((f"{head} is not cached; it differs from {self.nearest[:12]} in", *lines))


@dataclass(frozen=True, slots=True)
class Foresight:
    """What a build would do. `key` is empty and `refusal` says why when nothing can be compiled for the target."""

    target: str
    package: str
    changes: TreeChanges
    key: str
    state: str
    recompiled: tuple[Recompile, ...]
    refusal: str
    estimate: Estimate | None = None


def _dependencies(cmake: Path, tree: Path) -> dict[str, frozenset[str]]:
    """Return, for each source compiled before, the files of the tree that its object depends on."""
    done = subprocess.run(
        [find_tool("ninja"), "-C", str(cmake), "-t", "deps"], capture_output=True, text=True, check=False
    )
    found: dict[str, set[str]] = {}
    current: set[str] = set()
    for line in done.stdout.splitlines():
        if match := _DEPS_OF.match(line):
            current = found.setdefault(match[1], set())
        elif line.startswith("    ") and Path(line.strip()).is_relative_to(tree):
            current.add(Path(line.strip()).relative_to(tree).as_posix())
    return {source: frozenset(paths) for source, paths in found.items()}


def _flags(sources_cmake: str) -> dict[str, str]:
    """Return the lists of flags in a text of `sources.cmake`, by name."""
    return dict(re.findall(r"^set\(STRATA_((?:COMMON|GPU)_FLAGS|FLAGS_\w+) (.*)\)$", sources_cmake, re.MULTILINE))


def _flags_of(source: str) -> str:
    """Return the name of the flags that a source is compiled with."""
    level = level_of(source)
    return "GPU_FLAGS" if is_gpu_source(source) else f"FLAGS_{level}" if level else "COMMON_FLAGS"


def _changed_flags(tree: Tree, layout: Layout) -> frozenset[str]:
    """Return the names of the flags that differ from those in the tree on disk."""
    before = _flags((layout.tree / SOURCES).read_text(encoding="utf-8"))
    return frozenset(name for name, flags in _flags(tree.text(SOURCES)).items() if before.get(name) != flags)


def _recompiled(tree: Tree, native: NativeBuild, changes: TreeChanges) -> tuple[Recompile, ...]:
    layout = native.layout
    sources = [file.path for file in tree.files if is_native_source(file.path)]
    stale = native.stale_reason()
    if stale is not None:
        return tuple(Recompile(source, (stale,)) for source in sources)
    known = _dependencies(layout.cmake, layout.tree)
    written, flags = set(changes.written), _changed_flags(tree, layout)
    rows = []
    for source in sources:
        because = sorted(written & known[source]) if source in known else ["not compiled before"]
        because += ["its flags changed"] if _flags_of(source) in flags else []
        because += ["CMakeLists.txt"] if "CMakeLists.txt" in written else []
        rows += [Recompile(source, tuple(because))] if because else []
    return tuple(rows)


def _state(package: Path, name: str, key: str, environ: Mapping[str, str]) -> str:
    facts = read_facts(package)
    if facts is not None and facts.get("key") == key and damage(package) is None:
        return "up to date"
    stored = ArtifactCache(cache_root(environ)).artifacts / key / name
    return "cached" if stored.is_dir() and damage(stored) is None else "to build"


def _estimate(tree: Tree, recompiled: tuple[Recompile, ...], environ: Mapping[str, str]) -> Estimate | None:
    if not recompiled:
        return None
    sources = [file.path for file in tree.files if is_native_source(file.path)]
    records = [record for _, record in ArtifactCache(cache_root(environ)).records()]
    return estimate(tree.plan.package, sources, [row.source for row in recompiled], records, default_jobs())


def explain_key(tree: Tree, cache: ArtifactCache, environ: Mapping[str, str]) -> Explanation:
    """Say whether the package of a tree is cached, and why not. Raises `GeneratorError` without a compiler."""
    refuse_without_package(tree.plan)
    parts = key_parts(tree.files, target_toolchain(tree.plan, environ))
    key, package = key_of(parts), tree.plan.package
    stored = cache.artifacts / key / package
    if stored.is_dir() and damage(stored) is None:
        return Explanation(tree.target, key, True, key, ())
    others = [
        (
            entry.key,
            tuple(sorted(name for name in {*parts, *record.parts} if parts.get(name) != record.parts.get(name))),
        )
        for entry, record in cache.records()
        if record.package == package and entry.key != key
    ]
    nearest, differs = min(others, key=lambda other: len(other[1]), default=("", ()))
    return Explanation(tree.target, key, False, nearest, differs)


def foresee(tree: Tree, layout: Layout, environ: Mapping[str, str], reporter: Reporter) -> Foresight:
    """Say what `build` would write and compile, and why. Writes nothing.

    Raises `GeneratorError` when the compiler cannot be used.
    """
    changes = compare_tree(layout.tree, tree.files)
    package = tree.plan.package
    try:
        refuse_without_package(tree.plan)
    except GeneratorError as problem:
        return Foresight(tree.target, package, changes, "", "refused", (), problem.what)
    toolchain = target_toolchain(tree.plan, environ)
    key = build_key(tree.files, toolchain)
    state = _state(layout.package / package, package, key, environ)
    native = NativeBuild(layout, toolchain, environ, reporter)
    recompiled = _recompiled(tree, native, changes) if state == "to build" else ()
    return Foresight(tree.target, package, changes, key, state, recompiled, "", _estimate(tree, recompiled, environ))
