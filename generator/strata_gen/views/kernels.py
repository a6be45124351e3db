"""Views of the kernels: instances and tables per level, reference page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.format import Format
from strata_gen.model.kernel import Kernel, Variants
from strata_gen.model.target import Backend, CpuLevel
from strata_gen.resolve import Plan

PAGE_TEMPLATE = "kernels.md.j2"


@dataclass(frozen=True, slots=True)
class InstancesView:
    """The instances of one micro-kernel for one format and one level: one per number of tokens."""

    kernel: str
    body: str
    isa: str
    symbol: str
    format: str
    token_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InstanceName:
    """Where a table of instances is: `levels::<isa>::<symbol>`."""

    isa: str
    symbol: str


@dataclass(frozen=True, slots=True)
class LevelView:
    """The table of one level; `instances` in the order of format ids."""

    name: str
    isa: str
    instances: tuple[InstanceName, ...]


@dataclass(frozen=True, slots=True)
class LevelsView:
    """The list of levels, weakest first."""

    isas: tuple[str, ...]
    count: int


def _micro_kernels(plan: Plan) -> Iterator[tuple[Kernel, Variants]]:
    for kernel in plan.specs.kernels:
        if kernel.variants is not None and kernel.refusal(plan.target) is None:
            yield kernel, kernel.variants


def _symbol(kernel: Kernel, spec: Format) -> str:
    return f"{kernel.name}_{spec.name}"


def _most_tokens(plan: Plan, variants: Variants) -> int:
    value = plan.compile_values[variants.tokens]
    assert isinstance(value, int)
    return value


def _instances(plan: Plan) -> tuple[tuple[str, InstancesView], ...]:
    return tuple(
        (
            f"src/levels/{level.isa}/{_symbol(kernel, spec)}.cpp",
            InstancesView(
                kernel=kernel.name,
                body=kernel.body,
                isa=level.isa,
                symbol=_symbol(kernel, spec),
                format=spec.type_name,
                token_counts=tuple(range(1, _most_tokens(plan, variants) + 1)),
            ),
        )
        for kernel, variants in _micro_kernels(plan)
        for level in plan.target.levels
        for spec in plan.specs.formats
        if variants.serving_level(spec.name, level, plan.target) == level.isa
    )


def _level(plan: Plan, level: CpuLevel) -> LevelView:
    names = (
        InstanceName(variants.serving_level(spec.name, level, plan.target), _symbol(kernel, spec))
        for kernel, variants in _micro_kernels(plan)
        for spec in plan.specs.formats
    )
    return LevelView(level.name, level.isa, tuple(names))


def _levels(plan: Plan) -> tuple[tuple[str, LevelView], ...]:
    return tuple((f"src/levels/{level.isa}/level.cpp", _level(plan, level)) for level in plan.target.levels)


def _list(plan: Plan) -> tuple[tuple[str, LevelsView], ...]:
    isas = tuple(level.isa for level in plan.target.levels)
    return (("src/gen/levels.cpp", LevelsView(isas, len(isas))),) if isas else ()


def _kernel_sources(plan: Plan) -> tuple[str, ...]:
    files = [kernel.span.file for kernel, _ in _micro_kernels(plan)]
    return (*files, *(spec.span.file for spec in plan.specs.formats))


def _level_sources(plan: Plan) -> tuple[str, ...]:
    return (*_kernel_sources(plan), plan.target.span.file)


EMITTERS = (
    Emitter("rows_dot.cpp.j2", _instances, _kernel_sources),
    Emitter("level.cpp.j2", _levels, _level_sources),
    Emitter("levels.cpp.j2", _list, _level_sources),
)


@dataclass(frozen=True, slots=True)
class ParameterRow:
    """A row of a kernel's table of parameters."""

    name: str
    type: str
    shape: str
    access: str
    owner: str


@dataclass(frozen=True, slots=True)
class PhaseRow:
    """One phase in the reference page."""

    name: str
    items: str
    help: str


@dataclass(frozen=True, slots=True)
class KernelPage:
    """One kernel in the reference page; `support` has a word per backend, `facts` are lines."""

    name: str
    anchor: str
    help: str
    support: tuple[str, ...]
    parameters: tuple[ParameterRow, ...]
    phases: tuple[PhaseRow, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelsPage:
    """The reference page of kernels."""

    backends: tuple[str, ...]
    kernels: tuple[KernelPage, ...]


def _support(kernel: Kernel) -> tuple[str, ...]:
    reasons = {refusal.backend: refusal.reason for refusal in kernel.refused}
    return tuple(reasons.get(backend, "yes") for backend in Backend)


def _code(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _facts(kernel: Kernel) -> Iterator[str]:
    yield f"Body: `{kernel.body}`"
    if kernel.uses:
        yield f"Made of: {_code(kernel.uses)}"
    yield f"Compared with: {kernel.reference}"
    for tolerance in kernel.tolerances:
        bound = (
            "the same bits"
            if tolerance.bound == 0
            else f"within {tolerance.bound:g} of the sum over 32-wide blocks of sum |weight| times max |input|"
        )
        yield f"Tolerance, {tolerance.activation} activations: {bound}"
    if kernel.variants:
        yield f"Variants: formats {_code(kernel.variants.formats)}; 1 to `{kernel.variants.tokens}` tokens; every level"
        for pruning in kernel.variants.prune:
            yield (
                f"Not built: {_code(pruning.formats)} for `{pruning.isa}` where `{pruning.covered_by}` is built: "
                f"{pruning.reason}"
            )
    if kernel.knobs:
        yield f"Knobs: {_code(kernel.knobs)}"
    if kernel.facts:
        yield f"Target facts: {_code(kernel.facts)}"


def kernels_page(kernels: Iterable[Kernel]) -> KernelsPage:
    """Return the view of the reference page."""
    return KernelsPage(
        tuple(str(backend) for backend in Backend),
        tuple(
            KernelPage(
                name=kernel.name,
                anchor=kernel.anchor,
                help=kernel.help,
                support=_support(kernel),
                parameters=tuple(
                    ParameterRow(p.name, str(p.type), p.shape, str(p.access), str(p.owner)) for p in kernel.parameters
                ),
                phases=tuple(PhaseRow(p.name, p.items, p.help) for p in kernel.phases),
                facts=tuple(_facts(kernel)),
            )
            for kernel in kernels
        ),
    )
