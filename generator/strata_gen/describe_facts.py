"""What is said of each spec in a description: one `Fact` per thing to know."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from strata_gen.diagnostics import Span
from strata_gen.model.evidence import benchmark, reference_function
from strata_gen.model.format import ACTIVATION_HELP, Activation, Format
from strata_gen.model.kernel import Kernel, KernelLayout
from strata_gen.model.kernel_name import KernelName, interleaved_symbol
from strata_gen.model.knob import Knob
from strata_gen.model.target import CpuLevel, Target
from strata_gen.model.values import show_value_of
from strata_gen.resolve import package_name


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing to know: lines of text, and the line of the spec that says so."""

    key: str
    lines: tuple[str, ...]
    where: str = ""


def where(span: Span) -> str:
    """Return a place as `file:line`."""
    return f"{span.file}:{span.line}"


def kernel_fact(kernel: Kernel) -> Fact:
    """What a kernel does."""
    return Fact("kernel", (f"{kernel.name}: {kernel.help}",), where(kernel.span))


def format_fact(spec: Format) -> Fact:
    """A format with its block and bits."""
    size = f"blocks of {spec.elements} values in {spec.bytes} bytes, {spec.bits_per_value:g} bits a value"
    return Fact("format", (f"{spec.name}: {spec.help}", f"{size}; takes {spec.activation} inputs"), where(spec.span))


def activation_fact(activation: Activation) -> Fact:
    """The form of a kernel's input."""
    return Fact("activation", (f"{activation}: {ACTIVATION_HELP[activation]}",))


def tokens_fact(text: str, most: int, knob: Knob | None, kernel: Kernel) -> Fact:
    """How many tokens share a call; `knob` sets the most, or the kernel's spec does."""
    if knob is None:
        return Fact("tokens", (text, f"1 to {most}"), where(kernel.span))
    return Fact("tokens", (text, f"1 to {most}, the build-time knob {knob.name}"), where(knob.span))


def isa_fact(levels: Sequence[CpuLevel], having: Sequence[Target]) -> Fact:
    """An instruction set, given the levels of that name and the targets that have one."""
    level = levels[0]
    names = " and ".join(dict.fromkeys(each.name for each in levels))
    width = f"{level.vector_bytes}-byte vectors, 8-bit dot instruction: {level.dot}"
    lines = (f"{level.isa}: micro-kernel level {names}", f"{width}; compiled with {' '.join(level.flags)}")
    return Fact("isa", lines, where(having[0].span))


def target_facts(target: Target) -> tuple[Fact, ...]:
    """A hardware target and its package."""
    text = f"{target.backend} {target.name}: {target.help}"
    return Fact("target", (text,), where(target.span)), Fact("package", (package_name(target),))


def knob_fact(knob: Knob) -> Fact:
    """A knob with the names that are derived from it."""
    value = show_value_of(knob, knob.default) or '""'
    names = f"{knob.env}, {knob.flag}; default {value}; affects {knob.affects}"
    return Fact("knob", (f"{knob.name}: {knob.help}", names), where(knob.span))


def code_facts(kernel: Kernel, name: KernelName) -> Iterator[Fact]:
    """Where the code is, and what it is called with."""
    yield Fact("body", (f"runtime/include/{kernel.body}",))
    if kernel.launch is not None:
        yield Fact("symbol", (f"strata::device::{kernel.function}",))
        yield Fact("launch", (f"on a GPU: {kernel.launch}",))
    elif not kernel.is_micro:
        yield Fact("symbol", (f"strata::{kernel.function}",))
    elif name.isa:
        table = name.symbol if name.format else f"kLevel.{name.symbol}"
        if kernel.layout is KernelLayout.COMPUTE:
            table = interleaved_symbol(name.format)
        yield Fact("symbol", (f"strata::levels::{name.isa}::{table}",))
    parameters = (f"{p.name}: {p.type} {p.shape}, {p.access}, owned by the {p.owner}" for p in kernel.parameters)
    yield Fact("parameters", tuple(parameters))
    if kernel.phases:
        yield Fact("phases", tuple(f"{phase.name}, by {phase.items}: {phase.help}" for phase in kernel.phases))


def evidence_facts(kernel: Kernel, name: str, parity: str) -> Iterator[Fact]:
    """What proves it: the reference, the parity test and the benchmark."""
    yield Fact("compared with", (kernel.reference, reference_function(kernel.name)))
    yield Fact("parity test", (f'python -m pytest "{parity}"',))
    yield Fact("benchmark", (benchmark(name),))
