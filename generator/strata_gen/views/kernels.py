"""Views of the kernels: instances and tables per level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from strata_gen.emitter import Emitter
from strata_gen.model.format import Activation
from strata_gen.model.instances import instances, pruning_of
from strata_gen.model.kernel import Kernel, Part
from strata_gen.model.kernel_name import KernelName
from strata_gen.model.target import CpuLevel
from strata_gen.resolve import Plan

_ROWS = {Activation.INT8: "Int8Row", Activation.INT8_256: "Int8x256Row"}


@dataclass(frozen=True, slots=True)
class NamedInstance:
    """One instance: its canonical name, and for how many tokens it is."""

    name: str
    tokens: int


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
    instances: tuple[NamedInstance, ...]


@dataclass(frozen=True, slots=True)
class TableName:
    """Where a table of instances is: `levels::<isa>::<symbol>`."""

    isa: str
    symbol: str


@dataclass(frozen=True, slots=True)
class LevelEntry:
    """A member of `LevelKernels`: the instance's canonical name, and its function as a C++ expression."""

    member: str
    name: str
    function: str


@dataclass(frozen=True, slots=True)
class LevelView:
    """The table of one level; `formats` in the order of format ids."""

    name: str
    isa: str
    entries: tuple[LevelEntry, ...]
    formats: tuple[TableName, ...]


@dataclass(frozen=True, slots=True)
class LevelsView:
    """The list of levels, weakest first."""

    isas: tuple[str, ...]
    count: int


def _micro_kernels(plan: Plan, *, by_format: bool) -> Iterator[Kernel]:
    for kernel in plan.specs.kernels:
        if kernel.is_micro and kernel.refusal(plan.target) is None and (Part.FORMAT in kernel.parts) is by_format:
            yield kernel


def _tables(plan: Plan, kernel: Kernel) -> dict[KernelName, list[KernelName]]:
    """Return what is built of `kernel` by table: all numbers of tokens of one format and level."""
    tables: dict[KernelName, list[KernelName]] = {}
    for instance in instances(kernel, plan.specs, plan.target, plan.compile_values):
        if instance.pruning is None:
            tables.setdefault(replace(instance.name, tokens=0), []).append(instance.name)
    return tables


def _instances(plan: Plan) -> tuple[tuple[str, InstancesView], ...]:
    types = {spec.name: spec.type_name for spec in plan.specs.formats}
    return tuple(
        (
            f"src/levels/{table.isa}/{table.symbol}.cpp",
            InstancesView(
                kernel=kernel.name,
                body=kernel.body,
                isa=table.isa,
                symbol=table.symbol,
                format=table.format,
                type=types[table.format],
                instances=tuple(NamedInstance(str(name), name.tokens) for name in names),
            ),
        )
        for kernel in _micro_kernels(plan, by_format=True)
        for table, names in _tables(plan, kernel).items()
    )


def _entry(kernel: Kernel, name: KernelName) -> LevelEntry:
    arguments = [f"simd::{name.isa}", *((_ROWS[name.activation],) if name.activation else ())]
    return LevelEntry(name.symbol, str(name), f"kernels::{kernel.function}<{', '.join(arguments)}>")


def _level(plan: Plan, level: CpuLevel) -> LevelView:
    entries = (
        _entry(kernel, instance.name)
        for kernel in _micro_kernels(plan, by_format=False)
        for instance in instances(kernel, plan.specs, plan.target, plan.compile_values)
        if instance.name.isa == level.isa
    )
    return LevelView(level.name, level.isa, tuple(entries), tuple(_format_tables(plan, level)))


def _format_tables(plan: Plan, level: CpuLevel) -> Iterator[TableName]:
    for kernel in _micro_kernels(plan, by_format=True):
        for spec in plan.specs.formats:
            wanted = KernelName(kernel.name, spec.name, spec.activation, isa=level.isa)
            pruning = pruning_of(kernel, wanted, plan.target)
            yield TableName(pruning.covered_by if pruning else level.isa, wanted.symbol)


def _levels(plan: Plan) -> tuple[tuple[str, LevelView], ...]:
    return tuple((f"src/levels/{level.isa}/level.cpp", _level(plan, level)) for level in plan.target.levels)


def _list(plan: Plan) -> tuple[tuple[str, LevelsView], ...]:
    isas = tuple(level.isa for level in plan.target.levels)
    return (("src/gen/levels.cpp", LevelsView(isas, len(isas))),) if isas else ()


def _kernel_sources(plan: Plan) -> tuple[str, ...]:
    files = [kernel.span.file for kernel in _micro_kernels(plan, by_format=True)]
    return (*files, *(spec.span.file for spec in plan.specs.formats))


def _level_sources(plan: Plan) -> tuple[str, ...]:
    entries = (kernel.span.file for kernel in _micro_kernels(plan, by_format=False))
    return (*_kernel_sources(plan), *entries, plan.target.span.file)


EMITTERS = (
    Emitter("rows_dot.cpp.j2", _instances, _kernel_sources),
    Emitter("level.cpp.j2", _levels, _level_sources),
    Emitter("levels.cpp.j2", _list, _level_sources),
)
