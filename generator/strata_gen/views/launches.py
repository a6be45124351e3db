"""Views of device kernels: their launch geometry, and their launches by the format of the weights that they read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.interleaved import has_device_form
from strata_gen.model.kernel import Kernel, KernelLayout, Launch, ParameterType, Tiles
from strata_gen.model.target import Backend
from strata_gen.resolve import Plan

PATH = "include/strata/gen/launches.hpp"


@dataclass(frozen=True, slots=True)
class TileView:
    """How many values of one size a block does, as a named constant."""

    name: str
    each: int


@dataclass(frozen=True, slots=True)
class LaunchView:
    """Geometry of one kernel: the C++ expressions of its threads and blocks, and the parameters of the latter."""

    kernel: str
    type: str
    threads: str
    parameters: str
    blocks: str
    tiles: tuple[TileView, ...]


@dataclass(frozen=True, slots=True)
class LaunchesView:
    """Every device kernel's geometry."""

    launches: tuple[LaunchView, ...]


@dataclass(frozen=True, slots=True)
class FormatLaunchesView:
    """The kernels (structs and their headers) that read weights, and one format."""

    format: str
    type: str
    headers: tuple[str, ...]
    kernels: tuple[str, ...]


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _factor(tiles: Tiles) -> str:
    return tiles.over if tiles.each == 1 else f"(({tiles.over} + {tiles.each - 1}) / {tiles.each})"


def _launch(kernel: Kernel, launch: Launch) -> LaunchView:
    return LaunchView(
        kernel=kernel.name,
        type=f"{_camel(kernel.name)}Launch",
        threads="wave" if launch.threads is None else str(launch.threads),
        parameters=", ".join(f"int {tiles.over}" for tiles in launch.tiles),
        blocks=" * ".join(map(_factor, launch.tiles)) or "1",
        tiles=tuple(TileView(f"k{_camel(tiles.over)}PerBlock", tiles.each) for tiles in launch.tiles if tiles.each > 1),
    )


def _device_kernels(plan: Plan) -> Iterator[tuple[Kernel, Launch]]:
    for kernel in plan.specs.kernels:
        if kernel.launch is not None:
            yield kernel, kernel.launch


def _views(plan: Plan) -> tuple[tuple[str, LaunchesView], ...]:
    return ((PATH, LaunchesView(tuple(_launch(kernel, launch) for kernel, launch in _device_kernels(plan)))),)


def _sources(plan: Plan) -> tuple[str, ...]:
    return tuple(kernel.span.file for kernel, _ in _device_kernels(plan))


def _reads_weights(kernel: Kernel) -> bool:
    return any(parameter.type is ParameterType.BLOCKS for parameter in kernel.parameters)


def _format_views(plan: Plan) -> tuple[tuple[str, FormatLaunchesView], ...]:
    if plan.target.backend is Backend.CPU:
        return ()
    kernels = [kernel for kernel, _ in _device_kernels(plan) if _reads_weights(kernel)]
    found = []
    for spec in plan.specs.formats:
        own = [kernel for kernel in kernels if kernel.layout is KernelLayout.STORED or has_device_form(spec)]
        headers, names = sorted({kernel.body for kernel in own}), [kernel.function for kernel in own]
        view = FormatLaunchesView(spec.name, spec.type_name, tuple(headers), tuple(names))
        found.append((f"src/gpu/launch_{spec.name}.cu", view))
    return tuple(found)


def _format_sources(plan: Plan) -> tuple[str, ...]:
    return (*_sources(plan), *(spec.span.file for spec in plan.specs.formats))


EMITTERS = (
    Emitter("launches.hpp.j2", _views, _sources),
    Emitter("launch_format.cu.j2", _format_views, _format_sources),
)
