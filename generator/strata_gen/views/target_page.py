"""The view of the reference page of targets."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from strata_gen.model.specset import SpecSet
from strata_gen.model.target import (
    FEATURE_HELP,
    Backend,
    Compiler,
    CpuLevel,
    DotInstruction,
    Source,
    Target,
    show_version,
)
from strata_gen.resolve import package_name, targets_in_order

PAGE_TEMPLATE = "targets.md.j2"

_TITLES = {Backend.CPU: "CPU", Backend.CUDA: "CUDA", Backend.HIP: "HIP"}
_NUMBERS = (
    ("wave", "wave_size"),
    ("threads a block", "threads_per_block"),
    ("shared bytes", "shared_bytes"),
    ("with opt-in", "shared_optin_bytes"),
    ("registers a block", "registers_per_block"),
    ("a thread", "registers_per_thread"),
)
_UNKNOWN = "-"

_Key = TypeVar("_Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class TargetRow:
    """One target; `facts` are the cells of the backend's table of facts."""

    name: str
    help: str
    aliases: str
    package: str
    runs_on: str
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LevelRow:
    """One micro-kernel level."""

    name: str
    isa: str
    vector_bytes: str
    dot: str
    flags: str
    needs: str


@dataclass(frozen=True, slots=True)
class BackendSection:
    """The targets of one backend."""

    title: str
    columns: tuple[str, ...]
    targets: tuple[TargetRow, ...]
    levels: tuple[LevelRow, ...]
    matrix: tuple[str, ...]
    compilers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FeatureLine:
    """One feature and what it means."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class SourceLine:
    """One source and the number that the page calls it by."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class TargetsPage:
    """The reference page of targets."""

    backends: tuple[BackendSection, ...]
    features: tuple[FeatureLine, ...]
    sources: tuple[SourceLine, ...]


def _code(words: Sequence[object]) -> str:
    return ", ".join(f"`{word}`" for word in words) or _UNKNOWN


def _names(targets: Sequence[Target]) -> str:
    return _code([target.name for target in targets])


def _grouped(pairs: Iterable[tuple[_Key, Target]]) -> Iterator[tuple[_Key, list[Target]]]:
    """Yield each distinct first item with the targets that come with it."""
    groups: dict[_Key, list[Target]] = {}
    for key, target in pairs:
        groups.setdefault(key, []).append(target)
    yield from groups.items()


def _limits(compiler: Compiler) -> str:
    since = f"`{compiler.family}` {show_version(compiler.minimum)}"
    return f"{since} or newer" if compiler.maximum is None else f"{since} to {show_version(compiler.maximum)}"


def _sources_of(target: Target) -> Iterator[Source]:
    yield from (source for _, source in target.facts)
    for level in target.levels:
        yield from (level.vector_source, level.source)


class _Page:
    """Numbers the sources in the order in which the targets name them."""

    def __init__(self, targets: Sequence[Target]) -> None:
        self.targets = targets
        self.numbers: dict[Source, int] = {}
        for source in (source for target in targets for source in _sources_of(target)):
            self.numbers.setdefault(source, len(self.numbers) + 1)

    def cited(self, text: object, *sources: Source) -> str:
        return " ".join([str(text), *(f"[{self.numbers[source]}]" for source in dict.fromkeys(sources))])

    def fact(self, target: Target, key: str) -> str:
        value = getattr(target, key)
        return _UNKNOWN if value is None else self.cited(value, dict(target.facts)[key])

    def row(self, target: Target) -> TargetRow:
        words = [_UNKNOWN if target.dot is DotInstruction.NONE else f"`{target.dot}`", _code(target.features)]
        if target.backend is Backend.CPU:
            facts = [*words, _code([level.name for level in target.levels])]
        else:
            numbers = [self.fact(target, key) for _, key in _NUMBERS]
            facts = [*numbers, *words, f"`{target.mapped_stores}`"]
        return TargetRow(
            name=target.name,
            help=target.help,
            aliases=_code(target.aliases),
            package=package_name(target),
            runs_on=_code(target.runs_on[1:]),
            facts=tuple(facts),
        )

    def levels(self, targets: Sequence[Target]) -> tuple[LevelRow, ...]:
        levels = max((target.levels for target in targets), key=len)
        before: tuple[CpuLevel | None, ...] = (None, *levels)
        return tuple(self.level(level, last) for level, last in zip(levels, before, strict=False))

    def level(self, level: CpuLevel, before: CpuLevel | None) -> LevelRow:
        added = [flag for flag in level.cpu_flags if before is None or flag not in before.cpu_flags]
        return LevelRow(
            name=level.name,
            isa=level.isa,
            vector_bytes=self.cited(level.vector_bytes, level.vector_source),
            dot=_UNKNOWN if level.dot is DotInstruction.NONE else f"`{level.dot}`",
            flags=" ".join(f"`{flag}`" for flag in level.flags),
            needs=self.cited(_code(added), level.source),
        )

    def matrix(self, targets: Sequence[Target]) -> Iterator[str]:
        pairs = (((target.matrix, target.matrix_lanes), target) for target in targets if target.matrix)
        for (shapes, lanes), using in _grouped(pairs):
            facts = dict(using[0].facts)
            shown = self.cited(f"{_names(using)}: {_code(shapes)}", facts["matrix"])
            yield self.cited(f"{shown}, lanes of `{lanes}`", facts["matrix lanes"])

    def compilers(self, targets: Sequence[Target]) -> Iterator[str]:
        pairs = [(compiler, target) for target in targets for compiler in target.compilers]
        for limits, using in _grouped((replace(compiler, denied=()), target) for compiler, target in pairs):
            source = dict(using[0].facts)[f"{limits.family} minimum"]
            yield self.cited(f"{_names(using)}: {_limits(limits)}", source)
        for denied, using in _grouped((denied, target) for compiler, target in pairs for denied in compiler.denied):
            refused = f"{show_version(denied.first)} to {show_version(denied.last)} refused: {denied.reason}"
            yield self.cited(f"{_names(using)}: {refused}", dict(using[0].facts)["denied"])

    def section(self, backend: Backend) -> BackendSection:
        targets = [target for target in self.targets if target.backend is backend]
        gpu = (*(title for title, _ in _NUMBERS), "8-bit dot", "features", "mapped stores")
        return BackendSection(
            title=_TITLES[backend],
            columns=("8-bit dot", "features", "levels") if backend is Backend.CPU else gpu,
            targets=tuple(map(self.row, targets)),
            levels=self.levels(targets) if backend is Backend.CPU else (),
            matrix=tuple(self.matrix(targets)),
            compilers=tuple(self.compilers(targets)),
        )

    def view(self) -> TargetsPage:
        return TargetsPage(
            backends=tuple(map(self.section, dict.fromkeys(target.backend for target in self.targets))),
            features=tuple(FeatureLine(feature, text) for feature, text in FEATURE_HELP.items()),
            sources=tuple(
                SourceLine(number, f"{source.title}: {source.section}" if source.section else source.title)
                for source, number in self.numbers.items()
            ),
        )


def page_view(specs: SpecSet) -> TargetsPage:
    """Return the view of the reference page of all targets."""
    return _Page(targets_in_order(specs.targets)).view()


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the spec files that the page is made from."""
    return tuple(sorted({target.span.file for target in specs.targets}))
