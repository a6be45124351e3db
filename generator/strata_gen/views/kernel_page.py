"""The view of the reference page of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from strata_gen.model.format import Activation
from strata_gen.model.kernel import Kernel, Launch, Tiles, Tolerance
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend

PAGE_TEMPLATE = "kernels.md.j2"


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


def _block(tolerance: Tolerance) -> int:
    return max(tolerance.activation.block, Activation.INT8.block)


def _tiles(tiles: Tiles) -> str:
    return f"`{tiles.over}`" if tiles.each == 1 else f"`{tiles.over}` / {tiles.each}"


def _launch(launch: Launch) -> str:
    blocks = " x ".join(map(_tiles, launch.tiles)) or "one block"
    threads = "one wave" if launch.threads is None else f"{launch.threads} threads"
    return f"Launch on a GPU: {blocks}, {threads} each"


def _facts(kernel: Kernel) -> Iterator[str]:
    yield f"Body: `{kernel.body}`"
    if kernel.launch:
        yield _launch(kernel.launch)
    if kernel.uses:
        yield f"Made of: {_code(kernel.uses)}"
    yield f"Compared with: {kernel.reference}"
    for tolerance in kernel.tolerances:
        bound = (
            "the same bits"
            if tolerance.bound == 0
            else f"within {tolerance.bound:g} of the sum over {_block(tolerance)}-wide blocks of sum |weight| times "
            "max |input|"
        )
        yield f"Tolerance, {tolerance.activation} activations: {bound}"
    if kernel.variants:
        yield f"Variants: every format; 1 to `{kernel.variants.tokens}` tokens; every level"
        for pruning in kernel.variants.prune:
            yield (
                f"Not built: formats of {pruning.activation} activations for `{pruning.isa}` where "
                f"`{pruning.covered_by}` is built: {pruning.reason}"
            )
    if kernel.knobs:
        yield f"Knobs: {_code(kernel.knobs)}"
    if kernel.facts:
        yield f"Target facts: {_code(kernel.facts)}"


def page_view(specs: SpecSet) -> KernelsPage:
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
            for kernel in specs.kernels
        ),
    )


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the spec files that the page depends on."""
    return tuple(kernel.span.file for kernel in specs.kernels)
