"""The shape of `specs/targets/*.yaml`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from strata_gen.edge.base import Edge, Text
from strata_gen.model.target import Backend, CompilerFamily, DotInstruction, Feature, MappedStores, MatrixLanes

_LAX = Field(strict=False)  # YAML has words, not enum members

FeatureName = Annotated[Feature, _LAX]
CompilerName = Annotated[CompilerFamily, _LAX]
VersionText = Annotated[Text, Field(pattern=r"^[0-9]+(\.[0-9]+)*$")]
ShapeText = Annotated[Text, Field(pattern=r"^m[0-9]+n[0-9]+k[0-9]+ [a-z0-9]+ [a-z0-9]+$")]
CpuFlag = Annotated[Text, Field(pattern=r"^[a-z0-9_]+$")]
SourceKey = Annotated[Text, Field(description="Key of the file's 'sources' table.")]
Raw = Annotated[Any, WithJsonSchema({"type": ["boolean", "number", "string", "array", "null"]})]


def _demand_source(value: object) -> object:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        raise ValueError(f"a number names where it was read: {{value: {value}, source: KEY}}")  # noqa: TRY004 - pydantic passes on ValueError only
    return value


class NumberEdge(Edge):
    """A number and where it was read."""

    value: Annotated[int, Field(gt=0)]
    source: SourceKey


class VersionEdge(Edge):
    """A compiler release and where it was read."""

    value: VersionText
    source: SourceKey


Number = Annotated[NumberEdge, BeforeValidator(_demand_source)]
VersionNumber = Annotated[VersionEdge, BeforeValidator(_demand_source)]


class SourceEdge(Edge):
    """Where numbers were read: a document's title and the part of it."""

    title: Annotated[Text, Field(min_length=1)]
    section: Text = ""


class LanesEdge(Edge):
    """Which values each lane has, and where it was read."""

    value: Annotated[MatrixLanes, _LAX]
    source: SourceKey


class MatrixEdge(Edge):
    """Matrix instructions: shape, operand type, accumulator type."""

    shapes: Annotated[list[ShapeText], Field(min_length=1, description="Each written `m16n8k16 f16 f32`.")]
    lanes: Annotated[LanesEdge, Field(description="Which values of operands and sums each lane has.")]
    source: SourceKey


class DeniedEdge(Edge):
    """Compiler releases that must not be used, both ends included."""

    compiler: CompilerName
    first: VersionText
    last: VersionText
    reason: Annotated[Text, Field(min_length=1, description="What goes wrong, and what is safe.")]
    source: SourceKey


class CompilerEdge(Edge):
    """A compiler that can build a target."""

    family: CompilerName
    minimum: Annotated[VersionNumber, Field(description="Oldest release, as the compiler itself numbers it.")]
    maximum: Annotated[VersionNumber | None, Field(description="Newest release.")] = None


class LevelEdge(Edge):
    """A micro-kernel level: its CPU flags are added to those of the levels before it."""

    name: Text
    isa: Annotated[Literal["generic", "avx2", "avx512", "avx512vnni"], Field(description="Namespace of its kernels.")]
    flags: Annotated[list[Text], Field(min_length=1, description="Compiler flags.")]
    cpu_flags: Annotated[list[CpuFlag], Field(min_length=1, description="Names of /proc/cpuinfo that it adds.")]
    vector_bytes: Annotated[Number, Field(description="Width of the widest vector register.")]
    dot: Annotated[DotInstruction, _LAX, Field(description="Instruction for 8-bit products.")] = DotInstruction.NONE
    source: Annotated[SourceKey, Field(description="Where the CPU flags were read.")]


class TargetEdge(Edge):
    """One target or abstract base. Keys that are left out come from the base that `extends` names.

    `features`, `flags`, `denied` and `knobs` are added to the base's; every other key replaces it. `aliases`,
    `runs_on`, `help`, `abstract` and `native` are never inherited.
    """

    name: Annotated[Text, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", description="What `--target BACKEND` takes.")]
    help: Annotated[Text, Field(description="Devices of this target, in a few words.")] = ""
    abstract: Annotated[bool, Field(description="A base only: nothing is built for it.")] = False
    native: Annotated[bool, Field(description="Takes the best of its levels that the building CPU runs.")] = False
    extends: Annotated[Text | None, Field(description="A target of this file to inherit from.")] = None
    aliases: Annotated[list[Text], Field(default_factory=list, description="Other names.")]
    wave_size: Annotated[Number | None, Field(description="Lanes of a wave (warp).")] = None
    threads_per_block: Annotated[Number | None, Field(description="Largest block.")] = None
    shared_bytes: Annotated[Number | None, Field(description="Shared memory of a block, unasked.")] = None
    shared_optin_bytes: Annotated[Number | None, Field(description="Shared memory that a block may opt in to.")] = None
    registers_per_block: Annotated[Number | None, Field(description="32-bit registers of a block.")] = None
    registers_per_thread: Annotated[Number | None, Field(description="32-bit registers of a thread.")] = None
    matrix: Annotated[MatrixEdge | None, Field(description="Matrix instructions that kernels may use.")] = None
    dot: Annotated[DotInstruction | None, _LAX, Field(description="Instruction for 8-bit products.")] = None
    features: Annotated[list[FeatureName], Field(default_factory=list, description="What it can do besides.")]
    mapped_stores: Annotated[
        MappedStores | None, _LAX, Field(description="What makes stores into mapped memory visible to the host.")
    ] = None
    compilers: Annotated[
        list[CompilerEdge] | None, Field(min_length=1, description="Compilers that can build it, best first.")
    ] = None
    denied: Annotated[list[DeniedEdge], Field(default_factory=list, description="Compiler releases to refuse.")]
    flags: Annotated[list[Text], Field(default_factory=list, description="Flags beyond the architecture's own.")]
    runs_on: Annotated[list[Text], Field(default_factory=list, description="Other targets that run its binaries.")]
    knobs: Annotated[dict[str, Raw], Field(default_factory=dict, description="Defaults of knobs on this target.")]
    levels: Annotated[
        list[Text] | None, Field(min_length=1, description="Micro-kernel levels in the library, weakest first.")
    ] = None
    host: Annotated[Text | None, Field(description="GPU only: the CPU target whose levels its packages have too.")] = (
        None
    )


class TargetFile(Edge):
    """One file: the targets of one backend and the sources of their numbers."""

    backend: Annotated[Backend, _LAX]
    sources: Annotated[
        dict[str, SourceEdge], Field(default_factory=dict, description="Where numbers were read, by a short key.")
    ]
    levels: Annotated[list[LevelEdge], Field(default_factory=list, description="CPU only: all levels, weakest first.")]
    targets: Annotated[list[TargetEdge], Field(min_length=1)]
