"""The view of the reference page of targets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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

    def matrix(self, target: Target) -> str:
        return self.cited(_code(target.matrix), dict(target.facts)["matrix"]) if target.matrix else _UNKNOWN

    def row(self, target: Target) -> TargetRow:
        words = [_UNKNOWN if target.dot is DotInstruction.NONE else f"`{target.dot}`", _code(target.features)]
        if target.backend is Backend.CPU:
            facts = [*words, _code([level.name for level in target.levels])]
        else:
            numbers = [self.fact(target, key) for _, key in _NUMBERS]
            facts = [*numbers, *words, f"`{target.mapped_stores}`", self.matrix(target)]
        return TargetRow(
            name=target.name,
            help=target.help,
            aliases=_code(target.aliases),
            package=f"strata-kernels-{target.backend}-{target.package_suffix}",
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

    def compiler(self, compiler: Compiler, targets: Sequence[Target]) -> Iterator[str]:
        facts = {key: source for target in targets for key, source in target.facts}
        limits = f"`{compiler.family}` {show_version(compiler.minimum)} or newer"
        key = f"{compiler.family} minimum"
        if compiler.maximum is not None:
            limits = f"`{compiler.family}` {show_version(compiler.minimum)} to {show_version(compiler.maximum)}"
        yield self.cited(f"{', '.join(f'`{target.name}`' for target in targets)}: {limits}", facts[key])
        for denied in compiler.denied:
            refused = f"{show_version(denied.first)} to {show_version(denied.last)} refused: {denied.reason}"
            yield self.cited(f"{', '.join(f'`{target.name}`' for target in targets)}: {refused}", facts["denied"])

    def compilers(self, targets: Sequence[Target]) -> Iterator[str]:
        users: dict[Compiler, list[Target]] = {}
        for target in targets:
            for compiler in target.compilers:
                users.setdefault(compiler, []).append(target)
        for compiler, using in users.items():
            yield from self.compiler(compiler, using)

    def section(self, backend: Backend) -> BackendSection:
        targets = [target for target in self.targets if target.backend is backend]
        gpu = (*(title for title, _ in _NUMBERS), "8-bit dot", "features", "mapped stores", "matrix instructions")
        return BackendSection(
            title=_TITLES[backend],
            columns=("8-bit dot", "features", "levels") if backend is Backend.CPU else gpu,
            targets=tuple(map(self.row, targets)),
            levels=self.levels(targets) if backend is Backend.CPU else (),
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


def targets_page(targets: Sequence[Target]) -> TargetsPage:
    """Return the view of the reference page; `targets` stand in the order of the page."""
    return _Page(targets).view()
