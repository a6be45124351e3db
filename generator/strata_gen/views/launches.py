"""Views of the launch geometry of device kernels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from strata_gen.emitter import Emitter
from strata_gen.model.kernel import Kernel, Launch, Tiles
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


EMITTERS = (Emitter("launches.hpp.j2", _views, _sources),)
