"""Views of the kernels: instances and tables per level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.format import Format
from strata_gen.model.kernel import Kernel, Variants
from strata_gen.model.target import CpuLevel
from strata_gen.resolve import Plan


@dataclass(frozen=True, slots=True)
class InstancesView:
    """The instances of one micro-kernel for one format and one level: one per number of tokens.

    `type` is the C++ type of the format.
    """

    kernel: str
    body: str
    isa: str
    symbol: str
    format: str
    type: str
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
                format=spec.name,
                type=spec.type_name,
                token_counts=tuple(range(1, _most_tokens(plan, variants) + 1)),
            ),
        )
        for kernel, variants in _micro_kernels(plan)
        for level in plan.target.levels
        for spec in plan.specs.formats
        if variants.serving_level(spec.activation, level, plan.target) == level.isa
    )


def _level(plan: Plan, level: CpuLevel) -> LevelView:
    names = (
        InstanceName(variants.serving_level(spec.activation, level, plan.target), _symbol(kernel, spec))
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
