"""The view of the reference page of kernels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from strata_gen.model.evidence import benchmark, parity_test
from strata_gen.model.kernel import Kernel, Part
from strata_gen.model.kernel_name import Grammar, KernelName, has_layout, most_tokens
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
class InstanceRow:
    """The instances of one format or activation: their name up to the number of tokens, and a cell per level."""

    stem: str
    tokens: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelPage:
    """One kernel in the reference page; `support` has a word per backend, `facts` are lines.

    `names` is the form of its instances' names, `isas` the levels that tell them apart.
    """

    name: str
    anchor: str
    help: str
    support: tuple[str, ...]
    names: str
    count: int
    tolerance: str
    parity: str
    benchmark: str
    isas: tuple[str, ...]
    instances: tuple[InstanceRow, ...]
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
    yield f"Body: `{kernel.body}`, `{kernel.function}`"
    if kernel.launch:
        yield f"Launch on a GPU: {kernel.launch}"
    if kernel.uses:
        yield f"Made of: {_code(kernel.uses)}"
    yield f"Compared with: {kernel.reference}"
    for tolerance in kernel.tolerances:
        yield f"Tolerance, {tolerance.activation} activations: {tolerance}"
    for pruning in kernel.variants.prune if kernel.variants else ():
        yield (
            f"Not built: formats of {pruning.activation} activations for `{pruning.isa}` where "
            f"`{pruning.covered_by}` is built: {pruning.reason}"
        )
    if kernel.needs:
        yield f"Not built for targets without `{kernel.needs.shape}`: {kernel.needs.reason}"
    if kernel.knobs:
        yield f"Knobs: {_code(kernel.knobs)}"
    if kernel.facts:
        yield f"Target facts: {_code(kernel.facts)}"


def _form(kernel: Kernel) -> str:
    return ".".join((kernel.name, *(part.upper() for part in kernel.parts)))


def _cell(kernel: Kernel, name: KernelName, grammar: Grammar) -> str:
    if not has_layout(kernel, grammar.formats.get(name.format), name.isa):
        return "-"
    for pruning in kernel.variants.prune if kernel.variants else ():
        if pruning.isa == name.isa and pruning.activation is name.activation:
            return f"alone; else `{pruning.covered_by}`"
    return "yes"


def _instances(kernel: Kernel, grammar: Grammar) -> Iterator[InstanceRow]:
    if Part.ISA not in kernel.parts:
        return
    most = most_tokens(kernel, grammar.values)
    stems = dict.fromkeys(replace(name, tokens=0, isa="") for name in grammar.names(kernel))
    for stem in stems:
        cells = (_cell(kernel, replace(stem, isa=isa), grammar) for isa in grammar.isas)
        yield InstanceRow(str(stem), f"t1 to t{most}" if most else "any" if kernel.uses else "-", tuple(cells))


def _page(kernel: Kernel, grammar: Grammar) -> KernelPage:
    return KernelPage(
        name=kernel.name,
        anchor=kernel.anchor,
        help=kernel.help,
        support=_support(kernel),
        names=_form(kernel),
        count=sum(1 for _ in grammar.names(kernel)),
        tolerance=", ".join(f"{each.activation} {each.bound:g}" for each in kernel.tolerances),
        parity=parity_test(kernel.name),
        benchmark=benchmark(kernel.name),
        isas=grammar.isas if Part.ISA in kernel.parts else (),
        instances=tuple(_instances(kernel, grammar)),
        parameters=tuple(
            ParameterRow(p.name, str(p.type), p.shape, str(p.access), str(p.owner)) for p in kernel.parameters
        ),
        phases=tuple(PhaseRow(p.name, p.items, p.help) for p in kernel.phases),
        facts=tuple(_facts(kernel)),
    )


def page_view(specs: SpecSet) -> KernelsPage:
    """Return the view of the reference page."""
    grammar = Grammar(specs)
    return KernelsPage(tuple(map(str, Backend)), tuple(_page(kernel, grammar) for kernel in specs.kernels))


def page_sources(specs: SpecSet) -> tuple[str, ...]:
    """Return the spec files that the page depends on."""
    return tuple(kernel.span.file for kernel in specs.kernels)
