"""Kernels: what is computed, from which body, for which formats and targets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span
from strata_gen.model.format import Activation
from strata_gen.model.target import Backend, CpuLevel, Target


class ParameterType(StrEnum):
    """What a parameter points to."""

    BLOCKS = "blocks"  # stored blocks of a weight format
    ACTIVATION = "activation"  # an input in the format's activation form
    F32 = "f32"
    I32 = "i32"
    U8 = "u8"
    U32 = "u32"
    STRUCT = "struct"  # a struct of its own, named by the body


class Access(StrEnum):
    """What a kernel does to a parameter's memory."""

    READ = "read"
    WRITE = "write"  # every value, whatever was there
    UPDATE = "update"  # adds to what was there


class Owner(StrEnum):
    """Who keeps a parameter's memory alive."""

    CALLER = "caller"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One pointer parameter. `shape` is in the kernel's own sizes."""

    name: str
    type: ParameterType
    shape: str
    access: Access
    owner: Owner


@dataclass(frozen=True, slots=True)
class Phase:
    """One job of the pool: `items` is what is claimed. A phase begins when the one before has ended."""

    name: str
    items: str
    help: str


@dataclass(frozen=True, slots=True)
class Tiles:
    """A factor of a kernel's blocks: one per value of the size `over`, or one per `each` of them."""

    over: str
    each: int


@dataclass(frozen=True, slots=True)
class Launch:
    """Geometry of a device kernel. `threads` of a block; None: one wave. Without `tiles` there is one block."""

    threads: int | None
    tiles: tuple[Tiles, ...]


@dataclass(frozen=True, slots=True)
class Pruning:
    """Variants that are not built where the target also has the level `covered_by`, whose kernels serve instead.

    It concerns the formats that take inputs in the form `activation`.
    """

    activation: Activation
    isa: str
    covered_by: str
    reason: str


@dataclass(frozen=True, slots=True)
class Variants:
    """Instances of a micro-kernel: all formats x 1..tokens x levels of the target.

    `tokens` names a compile-time knob.
    """

    tokens: str
    prune: tuple[Pruning, ...]

    def serving_level(self, activation: Activation, level: CpuLevel, target: Target) -> str:
        """Return the `isa` of the level whose instances serve formats of `activation` on `level`."""
        present = {other.isa for other in target.levels}
        for pruning in self.prune:
            if pruning.isa == level.isa and pruning.activation is activation and pruning.covered_by in present:
                return pruning.covered_by
        return level.isa


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest error, as a share of the sum over the blocks of `activation` of (sum of |weight|) * (largest |input|).

    Blocks of 32 for float inputs.
    """

    activation: Activation
    bound: float


@dataclass(frozen=True, slots=True)
class Refusal:
    """A backend that a kernel is not built for, and why."""

    backend: Backend
    reason: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. `uses` names the micro-kernels that it is made of, `knobs` and `facts` what its code depends on.

    `launch` is there for a device kernel, `phases` for one of the pool.
    """

    name: str
    help: str
    body: str
    reference: str
    parameters: tuple[Parameter, ...]
    phases: tuple[Phase, ...]
    launch: Launch | None
    uses: tuple[str, ...]
    variants: Variants | None
    tolerances: tuple[Tolerance, ...]
    knobs: tuple[str, ...]
    facts: tuple[str, ...]
    backends: tuple[Backend, ...]
    refused: tuple[Refusal, ...]
    span: Span

    @property
    def anchor(self) -> str:
        """Anchor in the reference page."""
        return self.name.replace("_", "-")

    def refusal(self, target: Target) -> str | None:
        """Say why this kernel is not built for `target`; None when it is."""
        return next((refusal.reason for refusal in self.refused if refusal.backend is target.backend), None)
