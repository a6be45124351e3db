"""Views of the build's own files: the list of sources, the presets, and the package's `__init__`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from strata_gen import __version__
from strata_gen.emitter import Emitter
from strata_gen.errors import GeneratorError
from strata_gen.model.target import Backend
from strata_gen.resolve import Plan

PYTHON_FOLDER = "python"
SOURCES = "sources.cmake"
_LEVELS = "src/levels"
_LANGUAGES = {Backend.CUDA: "CUDA", Backend.HIP: "HIP"}


@dataclass(frozen=True, slots=True)
class LevelSources:
    """The sources of one micro-kernel level and the flags that only they get."""

    isa: str
    flags: str
    sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SourcesView:
    """What CMake has to know about one target. Flags are written as CMake list items.

    `gpu_language` is the name that CMake knows the device code's language by; empty for a CPU.
    """

    package: str
    target: str
    common_flags: str
    common_sources: tuple[str, ...]
    module_sources: tuple[str, ...]
    levels: tuple[LevelSources, ...]
    gpu_language: str
    gpu_flags: str
    gpu_sources: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PackageView:
    """What the package says of itself."""

    target: str
    backend: str
    arch: str
    version: str


@dataclass(frozen=True, slots=True)
class PresetsView:
    """What the presets for use by hand need."""

    target: str


def _cmake_list(flags: Sequence[str]) -> str:
    return " ".join(f'"{flag}"' for flag in flags)


def level_of(path: str) -> str | None:
    """Return the level (its `isa`) that a source of the tree belongs to; None for a source of all levels."""
    parts = PurePosixPath(path).parts
    return parts[2] if path.startswith(f"{_LEVELS}/") and len(parts) > 3 else None


def _is_module_source(path: str) -> bool:
    """Whether a source needs Python's headers, and so belongs to the module but not to native executables."""
    return PurePosixPath(path).name.startswith("bindings")


def is_native_source(path: str) -> bool:
    """Whether a file of the tree is compiled."""
    return path.endswith((".cpp", ".cu")) and path.startswith(("src/", "runtime/src/"))


def is_gpu_source(path: str) -> bool:
    """Whether a source is compiled by the compiler of device code."""
    return path.endswith(".cu")


def _sources_view(plan: Plan, paths: Sequence[str]) -> SourcesView:
    target = plan.target
    sources = sorted(path for path in paths if is_native_source(path))
    known = {level.isa for level in plan.levels}
    stray = [path for path in sources if (level := level_of(path)) is not None and level not in known]
    if stray:
        raise GeneratorError(
            f"'{stray[0]}' belongs to no level of {target.backend} {target.name}",
            mend=f"levels of this target: {', '.join(sorted(known)) or 'none'}",
        )
    levels = tuple(
        LevelSources(level.isa, _cmake_list(level.flags), own)
        for level in plan.levels
        if (own := tuple(path for path in sources if level_of(path) == level.isa))
    )
    common = [path for path in sources if level_of(path) is None and not is_gpu_source(path)]
    is_gpu = target.backend is not Backend.CPU
    return SourcesView(
        package=plan.package,
        target=f"{target.backend} {target.name}",
        # No level's flags: this code runs before the CPU is known to have any level, and says so when it has none.
        common_flags=_cmake_list(plan.host.flags if plan.host else ()),
        common_sources=tuple(path for path in common if not _is_module_source(path)),
        module_sources=tuple(path for path in common if _is_module_source(path)),
        levels=levels,
        gpu_language=_LANGUAGES.get(target.backend, ""),
        gpu_flags=_cmake_list((*target.architecture_flags, *target.flags) if is_gpu else ()),
        gpu_sources=tuple(path for path in sources if is_gpu_source(path)),
    )


def _spec_of_target(plan: Plan) -> tuple[str, ...]:
    return (plan.target.span.file,)


def emitters(paths: Sequence[str]) -> tuple[Emitter, ...]:
    """Return the emitters of the build's own files, given the paths of everything else in the tree.

    They come last because the list of sources names what the others emitted. A target without packages has no list of
    sources.
    """

    def sources(plan: Plan) -> tuple[tuple[str, SourcesView], ...]:
        return ((SOURCES, _sources_view(plan, paths)),) if plan.levels else ()

    def presets(plan: Plan) -> tuple[tuple[str, PresetsView], ...]:
        view = PresetsView(target=f"{plan.target.backend} {plan.target.name}")
        return (("CMakePresets.json", view),) if plan.levels else ()

    def init(plan: Plan) -> tuple[tuple[str, PackageView], ...]:
        target = plan.target
        view = PackageView(f"{target.backend} {target.name}", str(target.backend), target.name, __version__)
        return ((f"{PYTHON_FOLDER}/__init__.py", view),)

    return (
        Emitter("sources.cmake.j2", sources, _spec_of_target),
        Emitter("presets.json.j2", presets, _spec_of_target),
        Emitter("package_init.py.j2", init, _spec_of_target),
    )
