"""Targets at the edge: the shape of `specs/targets/*.yaml`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from strata_gen.edge.base import Edge, Text
from strata_gen.model.target import Backend, CompilerFamily, DotInstruction, Feature, MappedStores

_LAX = Field(strict=False)  # YAML has words, not enum members

BackendName = Annotated[Backend, _LAX]
FeatureName = Annotated[Feature, _LAX]
DotName = Annotated[DotInstruction, _LAX]
MappedStoresName = Annotated[MappedStores, _LAX]
CompilerName = Annotated[CompilerFamily, _LAX]
VersionText = Annotated[Text, Field(pattern=r"^[0-9]+(\.[0-9]+)*$")]
ShapeText = Annotated[Text, Field(pattern=r"^m[0-9]+n[0-9]+k[0-9]+ [a-z0-9]+ [a-z0-9]+$")]
CpuFlag = Annotated[Text, Field(pattern=r"^[a-z0-9_]+$")]


def _demand_source(value: object) -> object:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        raise ValueError(f"a number names where it was read: {{value: {value}, source: KEY}}")  # noqa: TRY004 (pydantic passes on ValueError only)
    return value


class NumberEdge(Edge):
    """A number and the key of the source that it was read in."""

    value: Annotated[int, Field(gt=0)]
    source: Text


Number = Annotated[NumberEdge, BeforeValidator(_demand_source)]


class VersionEdge(Edge):
    """A compiler release and the key of the source that it was read in."""

    value: VersionText
    source: Text


VersionNumber = Annotated[VersionEdge, BeforeValidator(_demand_source)]


class SourceEdge(Edge):
    """Where numbers were read: a document's title and the part of it."""

    title: Text
    section: Text = ""


class MatrixEdge(Edge):
    """Matrix instructions, each written `m16n8k16 f16 f32` (shape, operand type, accumulator type)."""

    shapes: Annotated[list[ShapeText], Field(min_length=1)]
    source: Text


class DeniedEdge(Edge):
    """Compiler releases that must not be used for a target, both ends included."""

    compiler: CompilerName
    first: VersionText
    last: VersionText
    reason: Annotated[Text, Field(min_length=1)]
    source: Text


class CompilerEdge(Edge):
    """A compiler that can build a target."""

    family: CompilerName
    minimum: VersionNumber
    maximum: VersionNumber | None = None


class LevelEdge(Edge):
    """A micro-kernel level: its CPU flags are added to those of the levels before it."""

    name: Text
    isa: Literal["generic", "avx2", "avx512", "avx512vnni"]
    flags: Annotated[list[Text], Field(min_length=1)]
    cpu_flags: Annotated[list[CpuFlag], Field(min_length=1)]
    vector_bytes: Number
    dot: DotName = DotInstruction.NONE
    source: Text


class TargetEdge(Edge):
    """One target or abstract base. Keys that are left out come from the base that `extends` names.

    `features`, `flags`, `denied` and `knobs` are added to the base's; every other key replaces it. `aliases`,
    `runs_on`, `help`, `abstract` and `native` are never inherited.
    """

    name: Annotated[Text, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    help: Text = ""
    abstract: bool = False
    native: bool = False
    extends: Text | None = None
    aliases: list[Text] = Field(default_factory=list)
    wave_size: Number | None = None
    threads_per_block: Number | None = None
    shared_bytes: Number | None = None
    shared_optin_bytes: Number | None = None
    registers_per_block: Number | None = None
    registers_per_thread: Number | None = None
    matrix: MatrixEdge | None = None
    dot: DotName | None = None
    features: list[FeatureName] = Field(default_factory=list)
    mapped_stores: MappedStoresName | None = None
    compilers: Annotated[list[CompilerEdge], Field(min_length=1)] | None = None
    denied: list[DeniedEdge] = Field(default_factory=list)
    flags: list[Text] = Field(default_factory=list)
    runs_on: list[Text] = Field(default_factory=list)
    knobs: dict[str, Any] = Field(default_factory=dict)
    levels: Annotated[list[Text], Field(min_length=1)] | None = None


class TargetFile(Edge):
    """One file: the targets of one backend and the sources of their numbers."""

    backend: BackendName
    sources: dict[str, SourceEdge]
    levels: list[LevelEdge] = Field(default_factory=list)
    targets: Annotated[list[TargetEdge], Field(min_length=1)]
