"""The whole emitted tree of one plan: what the slices render, the hand-written native code, the build's own files."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from strata_gen.emitter import GeneratedFile
from strata_gen.errors import GeneratorError
from strata_gen.kinds import KINDS
from strata_gen.model.target import Backend
from strata_gen.paths import project_root, templates_root
from strata_gen.render import EMITTER_MODULES, render, render_tree
from strata_gen.resolve import Plan
from strata_gen.specs import spec_files
from strata_gen.views import package

NATIVE_FOLDERS = ("runtime/include", "runtime/src", "tests/native")
_SOURCE_SUFFIXES = (".h", ".hpp", ".cpp", ".inc")
_GPU_SUFFIXES = {Backend.CUDA: (".cu", ".cuh"), Backend.HIP: (".cu", ".cuh")}


@dataclass(frozen=True, slots=True)
class Tree:
    """Everything that one plan emits, and where it came from.

    `inputs` are the absolute paths of all that the text depends on: specs, templates, generator modules, hand-written
    sources, and the folders that a new one of them would appear in.
    """

    plan: Plan
    files: tuple[GeneratedFile, ...]
    spec_hash: str
    inputs: tuple[Path, ...]

    @property
    def target(self) -> str:
        """The target as a user types it, e.g. `cpu native`."""
        return f"{self.plan.target.backend} {self.plan.target.name}"

    def text(self, path: str) -> str:
        """Text of one file of the tree."""
        return next(file.text for file in self.files if file.path == path)


def belongs_to(path: str, backend: Backend) -> bool:
    """Whether trees of a backend have a hand-written source; `path` is that in the project.

    Device code is for GPUs, and what a folder of `runtime/src` with a backend's name holds is for that one alone.
    """
    if not path.endswith((*_SOURCE_SUFFIXES, *_GPU_SUFFIXES.get(backend, ()))):
        return False
    return not any(path.startswith(f"runtime/src/{other}/") for other in Backend if other is not backend)


def _handwritten_paths(project: Path, backend: Backend) -> Iterator[Path]:
    yield project / "CMakeLists.txt"
    for folder in NATIVE_FOLDERS:
        found = (path for path in (project / folder).rglob("*") if path.is_file())
        yield from sorted(path for path in found if belongs_to(path.relative_to(project).as_posix(), backend))


def handwritten_files(project: Path, backend: Backend) -> tuple[GeneratedFile, ...]:
    """Return copies of a backend's sources that no spec changes, under the same paths as in the project."""
    copies = []
    for path in _handwritten_paths(project, backend):
        name = path.relative_to(project).as_posix()
        try:
            copies.append(GeneratedFile(name, path.read_text(encoding="utf-8"), (), origin=name))
        except (OSError, UnicodeDecodeError) as problem:
            raise GeneratorError(f"cannot read a native source: {problem}", where=str(path)) from problem
    return tuple(copies)


def hash_specs(roots: Sequence[Path]) -> str:
    """Return the hex SHA-256 over the names (relative to their root) and bytes of all spec files."""
    digest = hashlib.sha256()
    for root in roots:
        for path in (path for kind in KINDS for path in spec_files(root, kind)):
            data = path.read_bytes()
            digest.update(f"{path.relative_to(root).as_posix()}\0{len(data)}\0".encode() + data)
    return digest.hexdigest()


def _inputs(project: Path, roots: Sequence[Path], backend: Backend) -> tuple[Path, ...]:
    specs = [path for root in roots for kind in KINDS for path in (root / kind.folder, *spec_files(root, kind))]
    folders = {templates_root(), project / "templates"}
    templates = [path for folder in folders for path in (folder, *folder.rglob("*.j2"))]
    native = [path for folder in NATIVE_FOLDERS for path in (project / folder, *(project / folder).rglob("*"))]
    native = [path for path in native if path.is_dir() or belongs_to(path.relative_to(project).as_posix(), backend)]
    modules = Path(__file__).resolve().parent.rglob("*.py")
    everything = {*specs, *templates, *modules, *native, project / "CMakeLists.txt"}
    return tuple(sorted(path for path in everything if path.exists()))


def make_tree(
    plan: Plan,
    roots: Sequence[Path],
    *,
    project: Path | None = None,
    modules: tuple[ModuleType, ...] = EMITTER_MODULES,
) -> Tree:
    """Render the complete tree of `plan`, whose specs were read from `roots`.

    `project` replaces the folder of the hand-written sources and of the slices' templates, `modules` the slices: for
    builds of something smaller.
    """
    root = project or project_root()
    files = (*render_tree(plan, modules, root / "templates"), *handwritten_files(root, plan.target.backend))
    files += render(plan, package.emitters([file.path for file in files]))
    ordered = tuple(sorted(files, key=lambda file: file.path))
    return Tree(plan, ordered, hash_specs(roots), _inputs(root, roots, plan.target.backend))
