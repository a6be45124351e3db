"""Kernels at the edge: the shape of `specs/kernels/*.yaml`, and what one file can be wrong about by itself."""

from __future__ import annotations

from dataclasses import fields
from typing import Annotated

from pydantic import Field as Key

from strata_gen.diagnostics import Sink, did_you_mean
from strata_gen.edge.base import Edge, SpecKind, Text, file_by_file
from strata_gen.edge.target_edge import ShapeText
from strata_gen.load.document import Document
from strata_gen.model.format import Activation
from strata_gen.model.kernel import (
    Access,
    Kernel,
    KernelLayout,
    Launch,
    MatrixNeed,
    Measure,
    Owner,
    Parameter,
    ParameterType,
    Part,
    Phase,
    Pruning,
    Refusal,
    Tiles,
    Tolerance,
    Variants,
)
from strata_gen.model.target import Backend, Target

_LAX = Key(strict=False)  # YAML has words, not enum members
_NAME = r"^[a-z][a-z0-9_]*$"

Name = Annotated[Text, Key(pattern=_NAME)]
Words = Annotated[Text, Key(min_length=1)]


class ParameterEdge(Edge):
    """One pointer parameter."""

    name: Annotated[Name, Key(description="Name of the parameter.")]
    type: Annotated[ParameterType, _LAX, Key(description="What it points to.")]
    shape: Annotated[Words, Key(description="Its shape, in the kernel's own sizes.")]
    access: Annotated[Access, _LAX, Key(description="What the kernel does to it.")]
    owner: Annotated[Owner, _LAX, Key(description="Who keeps it alive.")]


class PhaseEdge(Edge):
    """One job of the pool; it begins when the one before has ended."""

    name: Annotated[Name, Key(description="Name of the phase.")]
    items: Annotated[Words, Key(description="What is claimed.")]
    help: Annotated[Words, Key(description="One sentence for the reference page.")]


class TilesEdge(Edge):
    """A factor of the number of blocks."""

    over: Annotated[Name, Key(description="A size of the kernel's own.")]
    each: Annotated[int, Key(ge=1, description="How many of it one block does.")] = 1


class LaunchEdge(Edge):
    """Geometry of a device kernel; on a CPU a block has one thread."""

    threads: Annotated[
        int | None,
        Key(ge=64, le=1024, multiple_of=64, description="Threads of a block, whole waves of any width; else one wave."),
    ] = None
    blocks: Annotated[list[TilesEdge], Key(default_factory=list, description="Factors of their number, slowest first.")]


class PruneEdge(Edge):
    """Variants that are left out where another level of the target serves for them."""

    activation: Annotated[Activation, _LAX, Key(description="Formats that take inputs in this form are left out.")]
    isa: Annotated[Name, Key(description="The instruction set that they are left out of.")]
    covered_by: Annotated[Name, Key(description="The instruction set whose kernels serve, where the target has it.")]
    reason: Annotated[Words, Key(description="Why.")]


class VariantsEdge(Edge):
    """Instances of a micro-kernel: every combination of the parts that `by` lists."""

    by: Annotated[
        list[Annotated[Part, _LAX]],
        Key(min_length=1, description="What tells instances apart; a format brings its activation form."),
    ]
    tokens: Annotated[
        Annotated[int, Key(ge=1, le=64)] | Text | None,
        Key(description="The largest number of tokens, or the compile-time knob that says it."),
    ] = None
    prune: Annotated[list[PruneEdge], Key(default_factory=list, description="Variants that are left out.")]


class ToleranceEdge(Edge):
    """Largest error against the reference."""

    activation: Annotated[Activation, _LAX, Key(description="The activation form that it holds for.")]
    bound: Annotated[float, Key(ge=0, lt=1, description="Share of what 'of' says; 0: the same bits.")]
    of: Annotated[
        Measure,
        _LAX,
        Key(description="products: the sum over blocks of sum |weight| * max |input|; result: the result itself."),
    ] = Measure.PRODUCTS


class NeedEdge(Edge):
    """A matrix instruction without which it is not built."""

    matrix: Annotated[ShapeText, Key(description="Shape, operands and accumulator, as targets name them.")]
    otherwise: Annotated[Words, Key(description="Reason that is given for targets without it.")]


class KernelEdge(Edge):
    """One kernel."""

    name: Annotated[Name, Key(description="Name of the kernel.")]
    help: Annotated[Words, Key(description="One sentence for the reference page.")]
    body: Annotated[Text, Key(pattern=r"^strata/[a-z0-9_/]+\.hpp$", description="Header with its hand-written body.")]
    function: Annotated[
        Text | None, Key(pattern=_NAME, description="Its C++ function, where that is not called as the kernel is.")
    ] = None
    reference: Annotated[Words, Key(description="What tests compare it with.")]
    parameters: Annotated[list[ParameterEdge], Key(min_length=1, description="Pointer parameters, in order.")]
    phases: Annotated[list[PhaseEdge], Key(default_factory=list, description="Jobs of the pool, in order.")]
    launch: Annotated[LaunchEdge | None, Key(description="Geometry of a device kernel.")] = None
    uses: Annotated[list[Name], Key(default_factory=list, description="Micro-kernels that it is made of.")]
    variants: Annotated[VariantsEdge | None, Key(description="Instances of a micro-kernel.")] = None
    layout: Annotated[
        KernelLayout,
        _LAX,
        Key(description="compute: for formats with a compute layout of the instruction set, or of the device, alone."),
    ] = KernelLayout.STORED
    tolerance: Annotated[list[ToleranceEdge], Key(min_length=1, description="Largest errors.")]
    knobs: Annotated[list[Text], Key(default_factory=list, description="Knobs that its code depends on.")]
    facts: Annotated[list[Name], Key(default_factory=list, description="Target facts that its code depends on.")]
    backends: Annotated[list[Annotated[Backend, _LAX]], Key(min_length=1, description="Backends it is built for.")]
    refused: Annotated[
        dict[Annotated[Backend, _LAX], Words],
        Key(default_factory=dict, description="Reason for every backend that it is not built for."),
    ]
    needs: Annotated[NeedEdge | None, Key(description="What targets of its backends must have.")] = None


def _check_backends(edge: KernelEdge, document: Document, sink: Sink) -> None:
    for backend in Backend:
        if backend in edge.backends and backend in edge.refused:
            message = f"'{backend}' is both built and refused in kernel '{edge.name}'"
            sink.error("N020", message, document.key_at("refused", str(backend)))
        elif backend not in edge.backends and backend not in edge.refused:
            message = f"kernel '{edge.name}' is neither built for '{backend}' nor refused with a reason"
            sink.error("N021", message, document.key_at("backends"))


def _check_facts(edge: KernelEdge, document: Document, sink: Sink) -> None:
    known = {field.name for field in fields(Target)} - {"name", "help", "aliases", "span", "facts"}
    for index, fact in enumerate(edge.facts):
        if fact not in known:
            message = f"'{fact}' is no fact of a target in kernel '{edge.name}'"
            sink.error("N022", message, document.at("facts", index), did_you_mean(fact, known))


def _check_prune(edge: KernelEdge, document: Document, sink: Sink) -> None:
    for index, prune in enumerate(edge.variants.prune if edge.variants else ()):
        if prune.isa == prune.covered_by:
            message = f"a variant cannot be covered by itself in kernel '{edge.name}'"
            sink.error("N023", message, document.at("variants", "prune", index, "covered_by"))


def _check_launch(edge: KernelEdge, document: Document, sink: Sink) -> None:
    if edge.launch is None:
        return
    seen: set[str] = set()
    for index, tiles in enumerate(edge.launch.blocks):
        if tiles.over in seen:
            message = f"'{tiles.over}' is cut into blocks twice in kernel '{edge.name}'"
            sink.error("N024", message, document.at("launch", "blocks", index, "over"))
        seen.add(tiles.over)


def _launch(edge: LaunchEdge) -> Launch:
    return Launch(edge.threads, tuple(Tiles(tiles.over, tiles.each) for tiles in edge.blocks))


def _problem_of_part(edge: KernelEdge, variants: VariantsEdge, index: int) -> str:
    part = variants.by[index]
    if part in variants.by[:index]:
        return f"'{part}' stands twice"
    if part is Part.ACTIVATION and Part.FORMAT in variants.by:
        return "'activation' beside 'format', which brings its own"
    if part is Part.TOKENS and variants.tokens is None:
        return "'tokens' without a largest number, or the knob that says it,"
    if part is Part.FORMAT and not _has_blocks(edge):
        return "'format' without a parameter of type 'blocks'"
    return ""


def _check_parts(edge: KernelEdge, document: Document, sink: Sink) -> None:
    variants = edge.variants
    if variants is None:
        return
    at = ("variants", "by")
    for index in range(len(variants.by)):
        if problem := _problem_of_part(edge, variants, index):
            sink.error("N026", f"{problem} in kernel '{edge.name}'", document.at(*at, index))
    if Part.ISA not in variants.by:
        message = f"'by' lacks 'isa', which every micro-kernel is compiled for, in kernel '{edge.name}'"
        sink.error("N026", message, document.key_at(*at))
    if variants.tokens is not None and Part.TOKENS not in variants.by:
        message = f"a number of tokens, which 'by' does not list, in kernel '{edge.name}'"
        sink.error("N026", message, document.key_at("variants", "tokens"))
    if edge.uses:
        message = f"kernel '{edge.name}' is made of micro-kernels, so its variants are theirs"
        sink.error("N027", message, document.key_at("variants"))


def _check_layout(edge: KernelEdge, document: Document, sink: Sink) -> None:
    parts = edge.variants.by if edge.variants else ()
    has_formats = Part.FORMAT in parts or (bool(edge.uses or edge.launch) and _has_blocks(edge))
    if edge.layout is KernelLayout.COMPUTE and not has_formats:
        message = f"layout 'compute' without formats to tell instances apart in kernel '{edge.name}'"
        sink.error("N028", message, document.at("layout"))


def _has_blocks(edge: KernelEdge) -> bool:
    return any(parameter.type is ParameterType.BLOCKS for parameter in edge.parameters)


def _variants(edge: VariantsEdge) -> Variants:
    prune = tuple(Pruning(item.activation, item.isa, item.covered_by, item.reason) for item in edge.prune)
    return Variants(tuple(edge.by), edge.tokens, prune)


def _function(edge: KernelEdge) -> str:
    """Return what the body calls the kernel: a device kernel is a struct."""
    return edge.name if edge.launch is None else "".join(word.capitalize() for word in edge.name.split("_"))


def _convert(edge: KernelEdge, document: Document, sink: Sink) -> tuple[Kernel, ...]:
    before = len(sink.diagnostics)
    for check in (_check_backends, _check_facts, _check_launch, _check_layout, _check_parts, _check_prune):
        check(edge, document, sink)
    if len(sink.diagnostics) > before:
        return ()
    return (
        Kernel(
            name=edge.name,
            help=edge.help,
            body=edge.body,
            function=edge.function or _function(edge),
            reference=edge.reference,
            parameters=tuple(Parameter(p.name, p.type, p.shape, p.access, p.owner) for p in edge.parameters),
            phases=tuple(Phase(p.name, p.items, p.help) for p in edge.phases),
            launch=_launch(edge.launch) if edge.launch else None,
            uses=tuple(edge.uses),
            variants=_variants(edge.variants) if edge.variants else None,
            layout=edge.layout,
            tolerances=tuple(Tolerance(t.activation, t.bound, t.of) for t in edge.tolerance),
            knobs=tuple(edge.knobs),
            facts=tuple(edge.facts),
            backends=tuple(edge.backends),
            refused=tuple(Refusal(backend, reason) for backend, reason in edge.refused.items()),
            needs=MatrixNeed(edge.needs.matrix, edge.needs.otherwise) if edge.needs else None,
            span=document.at("name"),
        ),
    )


KERNEL: SpecKind[KernelEdge, Kernel] = SpecKind("kernel", "kernels", "N", KernelEdge, file_by_file(_convert))
