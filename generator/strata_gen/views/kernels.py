"""Views of the kernels: instances and tables per level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from strata_gen.emitter import Emitter
from strata_gen.model.format import Activation
from strata_gen.model.instances import Instance, instances, pruning_of
from strata_gen.model.kernel import Kernel, KernelLayout, Part
from strata_gen.model.kernel_name import KernelName, interleaved_symbol
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

    `type` is the C++ type of the format, `interleaved` the symbol of what reads its compute layout; empty without one.
    """

    kernel: str
    body: str
    isa: str
    symbol: str
    format: str
    type: str
    interleaved: str
    instances: tuple[NamedInstance, ...]


@dataclass(frozen=True, slots=True)
class NamedFunction:
    """One instance: its canonical name, and its function as a C++ expression."""

    name: str
    function: str


@dataclass(frozen=True, slots=True)
class InterleavedView:
    """What makes and reads one format's compute layout at one level.

    `dots` and `ahead` have one instance per number of tokens, `ahead` for few tokens alone.
    `rows` rows of the format, whose C++ type is `type`, stand side by side.
    """

    bodies: tuple[str, ...]
    isa: str
    symbol: str
    format: str
    type: str
    rows: int
    arrange: NamedFunction
    dots: tuple[NamedFunction, ...]
    ahead: tuple[NamedFunction, ...]


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


def _micro_kernels(plan: Plan, *, by_format: bool, layout: KernelLayout = KernelLayout.STORED) -> Iterator[Kernel]:
    for kernel in plan.specs.kernels:
        is_asked = (Part.FORMAT in kernel.parts) is by_format and kernel.layout is layout
        if kernel.is_micro and plan.host is not None and kernel.refusal(plan.host) is None and is_asked:
            yield kernel


def _host_instances(plan: Plan, kernel: Kernel) -> Iterator[Instance]:
    """Yield the instances of `kernel` for the CPU that the package runs on."""
    if plan.host is not None:
        yield from instances(kernel, plan.specs, plan.host, plan.compile_values)


def _tables(plan: Plan, kernel: Kernel) -> dict[KernelName, list[KernelName]]:
    """Return what is built of `kernel` by table: all numbers of tokens of one format and level."""
    tables: dict[KernelName, list[KernelName]] = {}
    for instance in _host_instances(plan, kernel):
        if instance.pruning is None:
            tables.setdefault(replace(instance.name, tokens=0), []).append(instance.name)
    return tables


def _instances(plan: Plan) -> tuple[tuple[str, InstancesView], ...]:
    formats = {spec.name: spec for spec in plan.specs.formats}
    return tuple(
        (
            f"src/levels/{table.isa}/{table.symbol}.cpp",
            InstancesView(
                kernel=kernel.name,
                body=kernel.body,
                isa=table.isa,
                symbol=table.symbol,
                format=table.format,
                type=formats[table.format].type_name,
                interleaved=interleaved_symbol(table.format)
                if formats[table.format].interleaved_rows(table.isa)
                else "",
                instances=tuple(NamedInstance(str(name), name.tokens) for name in names),
            ),
        )
        for kernel in _micro_kernels(plan, by_format=True)
        for table, names in _tables(plan, kernel).items()
    )


def _interleaved(plan: Plan) -> tuple[tuple[str, InterleavedView], ...]:
    kernels = tuple(_micro_kernels(plan, by_format=True, layout=KernelLayout.COMPUTE))
    formats = {spec.name: spec for spec in plan.specs.formats}
    tables: dict[tuple[str, str], dict[str, list[NamedFunction]]] = {}
    for kernel in kernels:
        for instance in _host_instances(plan, kernel):
            name = instance.name
            arguments = [f"formats::{formats[name.format].type_name}", f"simd::{name.isa}"]
            arguments += [str(name.tokens)] if name.tokens else []
            function = NamedFunction(str(name), f"{kernel.function}<{', '.join(arguments)}>")
            tables.setdefault((name.isa, name.format), {}).setdefault(kernel.name, []).append(function)
    return tuple(
        (
            f"src/levels/{isa}/{interleaved_symbol(form)}.cpp",
            InterleavedView(
                bodies=tuple(dict.fromkeys(kernel.body for kernel in kernels)),
                isa=isa,
                symbol=interleaved_symbol(form),
                format=form,
                type=formats[form].type_name,
                rows=formats[form].interleaved_rows(isa),
                arrange=table["interleave"][0],
                dots=tuple(table["interleaved_dot"]),
                ahead=tuple(table["interleaved_dot_ahead"]),
            ),
        )
        for (isa, form), table in tables.items()
    )


def _entry(kernel: Kernel, name: KernelName) -> LevelEntry:
    arguments = [f"simd::{name.isa}", *((_ROWS[name.activation],) if name.activation else ())]
    return LevelEntry(name.symbol, str(name), f"kernels::{kernel.function}<{', '.join(arguments)}>")


def _level(plan: Plan, level: CpuLevel) -> LevelView:
    entries = (
        _entry(kernel, instance.name)
        for kernel in _micro_kernels(plan, by_format=False)
        for instance in _host_instances(plan, kernel)
        if instance.name.isa == level.isa
    )
    return LevelView(level.name, level.isa, tuple(entries), tuple(_format_tables(plan, level)))


def _format_tables(plan: Plan, level: CpuLevel) -> Iterator[TableName]:
    for kernel in _micro_kernels(plan, by_format=True):
        for spec in plan.specs.formats:
            wanted = KernelName(kernel.name, spec.name, spec.activation, isa=level.isa)
            pruning = pruning_of(kernel, wanted, plan.levels)
            yield TableName(pruning.covered_by if pruning else level.isa, wanted.symbol)


def _levels(plan: Plan) -> tuple[tuple[str, LevelView], ...]:
    return tuple((f"src/levels/{level.isa}/level.cpp", _level(plan, level)) for level in plan.levels)


def _list(plan: Plan) -> tuple[tuple[str, LevelsView], ...]:
    isas = tuple(level.isa for level in plan.levels)
    return (("src/gen/levels.cpp", LevelsView(isas, len(isas))),) if isas else ()


def _kernel_sources(plan: Plan) -> tuple[str, ...]:
    stored = _micro_kernels(plan, by_format=True)
    compute = _micro_kernels(plan, by_format=True, layout=KernelLayout.COMPUTE)
    files = [kernel.span.file for kernel in (*stored, *compute)]
    return (*files, *(spec.span.file for spec in plan.specs.formats))


def _level_specs(plan: Plan) -> tuple[str, ...]:
    return () if plan.host is None else (plan.host.span.file,)


def _level_sources(plan: Plan) -> tuple[str, ...]:
    entries = (kernel.span.file for kernel in _micro_kernels(plan, by_format=False))
    return (*_kernel_sources(plan), *entries, *_level_specs(plan))


EMITTERS = (
    Emitter("rows_dot.cpp.j2", _instances, _kernel_sources),
    Emitter("interleaved.cpp.j2", _interleaved, _kernel_sources),
    Emitter("level.cpp.j2", _levels, _level_sources),
    Emitter("levels.cpp.j2", _list, _level_sources),
)
