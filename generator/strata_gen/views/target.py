"""Views of one target's facts: for C++, and those that the runtime goes by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from strata_gen.emitter import Emitter
from strata_gen.model.target import (
    Backend,
    CpuLevel,
    DotInstruction,
    Feature,
    MappedStores,
    MatrixLanes,
    MatrixShape,
    Target,
)
from strata_gen.resolve import Plan

PATH = "include/strata/gen/target.hpp"

_SIZES = (
    ("int", "kWaveSize", "wave_size"),
    ("int", "kThreadsPerBlock", "threads_per_block"),
    ("std::size_t", "kSharedBytes", "shared_bytes"),
    ("std::size_t", "kSharedOptinBytes", "shared_optin_bytes"),
    ("int", "kRegistersPerBlock", "registers_per_block"),
    ("int", "kRegistersPerThread", "registers_per_thread"),
)


@dataclass(frozen=True, slots=True)
class EnumerationView:
    """A C++ enumeration and its members, comma-separated."""

    name: str
    members: str


@dataclass(frozen=True, slots=True)
class ConstantView:
    """One C++ constant; `value` is an expression of `type`."""

    type: str
    name: str
    value: str


@dataclass(frozen=True, slots=True)
class TargetView:
    """What `target.hpp` declares; items of `matrix` and `levels` are C++ initialisers."""

    title: str
    name: str
    enumerations: tuple[EnumerationView, ...]
    constants: tuple[ConstantView, ...]
    matrix: tuple[str, ...]
    levels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RuntimeFactsView:
    """What `target.py` declares: Python expressions."""

    unified_memory: str


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _enumeration(name: str, members: type[StrEnum]) -> EnumerationView:
    return EnumerationView(name, ", ".join(f"k{_camel(member)}" for member in members))


def _enum_constant(name: str, value: StrEnum) -> ConstantView:
    return ConstantView(name, f"k{name}", f"{name}::k{_camel(value)}")


def _constants(target: Target) -> tuple[ConstantView, ...]:
    words = (
        _enum_constant("Backend", target.backend),
        _enum_constant("Dot", target.dot),
        _enum_constant("MappedStores", target.mapped_stores),
        _enum_constant("MatrixLanes", target.matrix_lanes),
    )
    sizes = tuple(
        ConstantView(kind, name, str(value))
        for kind, name, key in _SIZES
        if (value := getattr(target, key)) is not None
    )
    features = tuple(
        ConstantView("bool", f"kHas{_camel(feature)}", "true" if target.has(feature) else "false")
        for feature in Feature
    )
    return (*words, *sizes, *features)


def _shape(shape: MatrixShape) -> str:
    return f'{{{shape.m}, {shape.n}, {shape.k}, "{shape.operand}", "{shape.accumulator}"}}'


def _level(level: CpuLevel) -> str:
    return f'{{"{level.name}", "{level.isa}", {level.vector_bytes}, Dot::k{_camel(level.dot)}}}'


def target_view(target: Target, levels: Sequence[CpuLevel]) -> TargetView:
    """Prepare the facts of one resolved target, whose packages have micro-kernels of `levels`."""
    return TargetView(
        title=f"{target.backend} {target.name}",
        name=target.name,
        enumerations=(
            _enumeration("Backend", Backend),
            _enumeration("Dot", DotInstruction),
            _enumeration("MappedStores", MappedStores),
            _enumeration("MatrixLanes", MatrixLanes),
        ),
        constants=_constants(target),
        matrix=tuple(map(_shape, target.matrix)),
        levels=tuple(map(_level, levels)),
    )


def _views(plan: Plan) -> tuple[tuple[str, TargetView], ...]:
    return ((PATH, target_view(plan.target, plan.levels)),)


def _runtime_views(plan: Plan) -> tuple[tuple[str, RuntimeFactsView], ...]:
    return (("python/target.py", RuntimeFactsView(repr(plan.target.has(Feature.UNIFIED_MEMORY)))),)


def _sources(plan: Plan) -> tuple[str, ...]:
    return (plan.target.span.file,)


EMITTERS: tuple[Emitter, ...] = (
    Emitter("target.hpp.j2", _views, _sources),
    Emitter("target.py.j2", _runtime_views, _sources),
)
