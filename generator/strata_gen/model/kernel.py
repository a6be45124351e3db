"""Kernels: what is computed, from which body, for which formats and targets."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from strata_gen.diagnostics import Span
from strata_gen.model.format import Activation
from strata_gen.model.target import Backend, Target


class ParameterType(StrEnum):
    """What a parameter points to."""

    BLOCKS = "blocks"  # stored blocks of a weight format
    ACTIVATION = "activation"  # an input in the format's activation form
    F32 = "f32"
    I32 = "i32"
    U8 = "u8"
    U32 = "u32"
    STRUCT = "struct"  # a struct of its own, named by the body
    BYTES = "bytes"


class Part(StrEnum):
    """What tells the instances of one kernel apart, in the order in which their names say it."""

    FORMAT = "format"
    ACTIVATION = "activation"
    TOKENS = "tokens"
    ISA = "isa"


class KernelLayout(StrEnum):
    """The layout of weights that a kernel is about."""

    STORED = "stored"  # as a file has them, which every format has
    COMPUTE = "compute"  # that of an instruction set, or of device kernels, which some formats have


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

    def __str__(self) -> str:
        return self.over if self.each == 1 else f"{self.over} / {self.each}"


@dataclass(frozen=True, slots=True)
class Launch:
    """Geometry of a device kernel. `threads` of a block; None: one wave. Without `tiles` there is one block."""

    threads: int | None
    tiles: tuple[Tiles, ...]

    def __str__(self) -> str:
        blocks = " x ".join(map(str, self.tiles)) or "one block"
        return f"{blocks}, {'one wave' if self.threads is None else f'{self.threads} threads'} each"


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
    """What there are instances of a micro-kernel for: every combination of the parts `by`.

    `tokens` is the largest number of tokens, or names the compile-time knob that says it; None where `by` lacks them.
    """

    by: tuple[Part, ...]
    tokens: int | str | None
    prune: tuple[Pruning, ...]


class Measure(StrEnum):
    """What an error is a share of."""

    PRODUCTS = "products"  # the sum over the blocks of the activation of (sum of |weight|) * (largest |input|)
    RESULT = "result"  # the size of the result itself


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Largest error, as a share of `of`. Blocks are of 32 for float inputs."""

    activation: Activation
    bound: float
    of: Measure

    def __str__(self) -> str:
        if self.bound == 0:
            return "the same bits"
        if self.of is Measure.RESULT:
            return f"within {self.bound:g} of the result"
        block = max(self.activation.block, Activation.INT8.block)
        return f"within {self.bound:g} of the sum over {block}-wide blocks of sum |weight| times max |input|"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A backend that a kernel is not built for, and why."""

    backend: Backend
    reason: str


@dataclass(frozen=True, slots=True)
class MatrixNeed:
    """A matrix instruction without which a kernel is not built, and the reason that is given then."""

    shape: str
    reason: str


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel. `uses` names the micro-kernels that it is made of, `knobs` and `facts` what its code depends on.

    `layout` compute: there are instances for formats and instruction sets that have a compute layout, and no others; of
    a device kernel, for formats that device kernels can read.

    `launch` is there for a device kernel, `phases` for one of the pool. `function` is what `body` calls it: a
    function, or the struct of a device kernel.
    """

    name: str
    help: str
    body: str
    function: str
    reference: str
    parameters: tuple[Parameter, ...]
    phases: tuple[Phase, ...]
    launch: Launch | None
    uses: tuple[str, ...]
    variants: Variants | None
    layout: KernelLayout
    tolerances: tuple[Tolerance, ...]
    knobs: tuple[str, ...]
    facts: tuple[str, ...]
    backends: tuple[Backend, ...]
    refused: tuple[Refusal, ...]
    needs: MatrixNeed | None
    span: Span

    @property
    def anchor(self) -> str:
        """Anchor in the reference page."""
        return self.name.replace("_", "-")

    @property
    def is_micro(self) -> bool:
        """Whether it is compiled once per instruction set, as an entry of every level's table."""
        return self.variants is not None

    @property
    def parts(self) -> tuple[Part, ...]:
        """What names of its instances say, in order.

        A kernel that is made of micro-kernels varies as they do, but takes any number of tokens.
        """
        if self.variants is not None:
            chosen = set(self.variants.by)
        elif self.uses:
            blocks = any(parameter.type is ParameterType.BLOCKS for parameter in self.parameters)
            chosen = {Part.ISA, *((Part.FORMAT,) if blocks else ())}
        else:
            chosen = set()
        if Part.FORMAT in chosen:
            chosen.add(Part.ACTIVATION)  # that of the format
        return tuple(part for part in Part if part in chosen)

    def tolerance(self, activation: Activation) -> Tolerance | None:
        """What is allowed for inputs in this form."""
        return next((tolerance for tolerance in self.tolerances if tolerance.activation is activation), None)

    def refusal(self, target: Target) -> str | None:
        """Say why this kernel is not built for `target`; None when it is."""
        reason = next((refusal.reason for refusal in self.refused if refusal.backend is target.backend), None)
        if reason is None and self.needs and self.needs.shape not in map(str, target.matrix):
            reason = f"it has no {self.needs.shape}: {self.needs.reason}"
        return reason
