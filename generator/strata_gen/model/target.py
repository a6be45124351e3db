"""Hardware targets: what one device, or one class of CPUs, can do, and how code for it is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span
from strata_gen.load.scalars import Scalar


class Backend(StrEnum):
    """Which language and driver a target's device code is built for."""

    CUDA = "cuda"
    HIP = "hip"
    CPU = "cpu"


class Feature(StrEnum):
    """What some targets have and others lack. The list is closed: a kernel asks for these names only."""

    ASYNC_COPY = "async_copy"
    BULK_COPY = "bulk_copy"
    CLUSTERS = "clusters"
    BF16 = "bf16"
    FP8 = "fp8"
    AMX = "amx"
    UNIFIED_MEMORY = "unified_memory"
    STREAM_WAIT = "stream_wait"
    DEPENDENT_LAUNCH = "dependent_launch"


FEATURE_HELP: Mapping[Feature, str] = {
    Feature.ASYNC_COPY: "copies from global to shared memory that pass no register",
    Feature.BULK_COPY: "copies of whole tiles by an engine of the multiprocessor",
    Feature.CLUSTERS: "blocks that are scheduled together and read one another's shared memory",
    Feature.BF16: "matrix or dot instructions on bfloat16",
    Feature.FP8: "matrix instructions on 8-bit floats",
    Feature.AMX: "tile registers of a CPU",
    Feature.UNIFIED_MEMORY: "device and host share one physical memory",
    Feature.STREAM_WAIT: "waiting on a memory word works as a node of a captured graph",
    Feature.DEPENDENT_LAUNCH: "a kernel is made ready to run while the one before it still does",
}


class DotInstruction(StrEnum):
    """The instruction that sums four products of 8-bit integers into a 32-bit one."""

    NONE = "none"
    DP4A = "dp4a"
    SDOT4 = "sdot4"
    SUDOT4 = "sudot4"
    VNNI = "vnni"


class MatrixLanes(StrEnum):
    """Which values of operands and sums each lane has, in the matrix instructions of a target."""

    NONE = "none"
    MMA = "mma"  # NVIDIA's
    WMMA = "wmma"  # AMD's RDNA 3
    WMMA_GFX12 = "wmma_gfx12"  # AMD's RDNA 4
    MFMA = "mfma"  # AMD's CDNA


class MappedStores(StrEnum):
    """What makes a device's store into mapped host memory visible to the host while the kernel still runs."""

    CACHE = "cache"  # device and host are the same cores: release and acquire
    SYSTEM_FENCE = "system_fence"  # a system-scope fence
    FINE_GRAINED = "fine_grained"  # a system-scope release, in memory allocated as fine-grained


class CompilerFamily(StrEnum):
    """Kinds of compilers. `clang` includes the clang of a ROCm release."""

    NVCC = "nvcc"
    CLANG = "clang"
    GCC = "gcc"


Version = tuple[int, ...]


def parse_version(text: str) -> Version:
    """Read `13.2.1` as (13, 2, 1). Raises ValueError when a component is not a number."""
    return tuple(int(part) for part in text.split("."))


def show_version(version: Version) -> str:
    """Write a version as `13.2.1`."""
    return ".".join(map(str, version))


@dataclass(frozen=True, slots=True)
class Source:
    """Where a number was read."""

    key: str
    title: str
    section: str


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """One matrix instruction: D[m, n] (accumulator type) += A[m, k] * B[k, n] (operand type)."""

    m: int
    n: int
    k: int
    operand: str
    accumulator: str

    def __str__(self) -> str:
        return f"m{self.m}n{self.n}k{self.k} {self.operand} {self.accumulator}"


@dataclass(frozen=True, slots=True)
class DeniedRange:
    """Compiler releases that must not be used, both ends included, and why."""

    first: Version
    last: Version
    reason: str


@dataclass(frozen=True, slots=True)
class Compiler:
    """A compiler that can build a target: releases from `minimum` to `maximum` (included; None: no limit).

    Versions are what the compiler itself says: nvcc's own (`V13.2.78`), not that of the CUDA Toolkit it came with.
    """

    family: CompilerFamily
    minimum: Version
    maximum: Version | None
    denied: tuple[DeniedRange, ...]

    def refusal(self, version: Version) -> str | None:
        """Say why this release cannot be used; None when it can.

        A limit holds to its own precision: maximum 13.2 includes 13.2.1.
        """
        given = f"{self.family} {show_version(version)}"
        if version < self.minimum:
            return f"{given} is too old: {show_version(self.minimum)} or newer is needed"
        if self.maximum is not None and version[: len(self.maximum)] > self.maximum:
            return f"{given} is too new: {show_version(self.maximum)} is the newest that is supported"
        for denied in self.denied:
            if denied.first <= version and version[: len(denied.last)] <= denied.last:
                return f"{given} must not be used: {denied.reason}"
        return None


@dataclass(frozen=True, slots=True)
class CpuLevel:
    """One set of CPU instructions that micro-kernels are compiled for.

    `isa` is the C++ namespace of its micro-kernels, `flags` what the compiler needs, `cpu_flags` every name in
    /proc/cpuinfo that a CPU must show to run them, `vector_bytes` the width of its widest vector register.
    `source` is where `cpu_flags` were read.
    """

    name: str
    isa: str
    flags: tuple[str, ...]
    cpu_flags: tuple[str, ...]
    vector_bytes: int
    vector_source: Source
    dot: DotInstruction
    source: Source


@dataclass(frozen=True, slots=True)
class KnobDefault:
    """The default of one knob on this target, as written; `strata_gen.model.check_target` proves that it fits."""

    knob: str
    value: Scalar
    span: Span


@dataclass(frozen=True, slots=True)
class Target:
    """One hardware target. A number that is None is not known or means nothing here (a CPU has no wave size).

    Sizes are in bytes; `shared_bytes` is what a block may use unasked, `shared_optin_bytes` what it may opt in to.
    `flags` are compiler flags beyond the architecture's own. `runs_on` names the targets whose devices can run a
    package built for this one, itself first. `levels` (CPU only) are the micro-kernel levels compiled into the
    library, weakest first; for a `native` target they are the candidates until `strata_gen.resolve.find_target`
    has looked at the host. `host` (GPU only) is the name of the CPU target whose levels a package has beside the
    device's kernels; empty when there are no packages. `facts` gives the source of every number by its key in the spec.
    `span` is the place of the name, the other three those of what their names say.
    """

    name: str
    backend: Backend
    help: str
    aliases: tuple[str, ...]
    wave_size: int | None
    threads_per_block: int | None
    shared_bytes: int | None
    shared_optin_bytes: int | None
    registers_per_block: int | None
    registers_per_thread: int | None
    matrix: tuple[MatrixShape, ...]
    matrix_lanes: MatrixLanes
    dot: DotInstruction
    features: tuple[Feature, ...]
    mapped_stores: MappedStores
    compilers: tuple[Compiler, ...]
    flags: tuple[str, ...]
    runs_on: tuple[str, ...]
    knob_defaults: tuple[KnobDefault, ...]
    levels: tuple[CpuLevel, ...]
    native: bool
    host: str
    facts: tuple[tuple[str, Source], ...]
    span: Span
    aliases_span: Span
    runs_on_span: Span
    host_span: Span

    @property
    def package_suffix(self) -> str:
        """Last part of the package's name, e.g. `sm86`, `gfx1151`, `x86_64_v3`."""
        return self.name.replace("_", "") if self.backend is Backend.CUDA else self.name.replace("-", "_")

    @property
    def architecture_flags(self) -> tuple[str, ...]:
        """Flags that choose the architecture for code that is compiled once (for a CPU: the weakest level's)."""
        match self.backend:
            case Backend.CUDA:
                number = self.name.removeprefix("sm_")
                return (f"--generate-code=arch=compute_{number},code=sm_{number}",)
            case Backend.HIP:
                return (f"--offload-arch={self.name}",)
            case Backend.CPU:
                return self.levels[0].flags

    def has(self, feature: Feature) -> bool:
        """Whether the target has `feature`."""
        return feature in self.features

    def knob_default(self, knob: str) -> KnobDefault | None:
        """This target's own default of a knob, by its dotted name."""
        return next((default for default in self.knob_defaults if default.knob == knob), None)
