"""Canonical names of kernel instances, such as `rows_dot.q4_k.int8_256.t5.avx512vnni`.

    KERNEL [. FORMAT . ACTIVATION | . ACTIVATION] [. tTOKENS] [. ISA]

A kernel's spec decides which parts its names have (`Kernel.parts`), so a name is read by position and needs no reserved
words. Where a kernel is not built at all, the instruction set's place holds the GPU target that refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError
from strata_gen.model.format import Activation, Format
from strata_gen.model.kernel import Kernel, KernelLayout, Part
from strata_gen.model.knob import KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend

_TOKENS = re.compile(r"t([1-9][0-9]*)")


@dataclass(frozen=True, slots=True)
class KernelName:
    """One instance of a kernel, or several where a part is left out. `isa` may be the name of a GPU target."""

    kernel: str
    format: str = ""
    activation: Activation | None = None
    tokens: int = 0
    isa: str = ""

    def text(self, part: Part) -> str:
        """Return one part as the name says it; empty when it is left out."""
        match part:
            case Part.FORMAT:
                return self.format
            case Part.ACTIVATION:
                return self.activation or ""
            case Part.TOKENS:
                return f"t{self.tokens}" if self.tokens else ""
            case Part.ISA:
                return self.isa

    def __str__(self) -> str:
        return ".".join(filter(None, (self.kernel, *map(self.text, Part))))

    @property
    def symbol(self) -> str:
        """Name in C++ of what holds these instances, inside the namespace of their instruction set."""
        return str(replace(self, tokens=0, isa="")).replace(".", "_")


def most_tokens(kernel: Kernel, values: Mapping[str, KnobValue]) -> int:
    """Return the largest number of tokens that `kernel` has an instance for; 0 when its instances take any number."""
    if kernel.variants is None or kernel.variants.tokens is None:
        return 0
    tokens = kernel.variants.tokens
    value = tokens if isinstance(tokens, int) else values[tokens]
    assert isinstance(value, int)
    return value


def default_values(specs: SpecSet) -> dict[str, KnobValue]:
    """Return every knob's default by its name."""
    return {knob.name: knob.default for knob in specs.knobs}


def names_of(kernel: Kernel, specs: SpecSet, isas: Iterable[str], tokens: int) -> Iterator[KernelName]:
    """Yield the name of every instance that there can be for `isas`, in the order of format, tokens, instruction set.

    `tokens` is the largest number of them. A kernel that no instruction set tells apart has one instance.
    """
    inputs: list[tuple[Format | None, Activation | None]] = [(None, None)]
    if Part.FORMAT in kernel.parts:
        inputs = [(spec, spec.activation) for spec in specs.formats]
    elif Part.ACTIVATION in kernel.parts:
        inputs = [(None, tolerance.activation) for tolerance in kernel.tolerances]
    counts = range(1, tokens + 1) if Part.TOKENS in kernel.parts else (0,)
    places = tuple(isas) if Part.ISA in kernel.parts else ("",)
    for spec, activation in inputs:
        for count in counts:
            for isa in places:
                if has_layout(kernel, spec, isa):
                    yield KernelName(kernel.name, spec.name if spec else "", activation, count, isa)


def interleaved_symbol(form: str) -> str:
    """Return the name in C++ of the table of what makes and reads a format's compute layout."""
    return f"interleaved_{form}"


def has_layout(kernel: Kernel, spec: Format | None, isa: str) -> bool:
    """Whether a format has what a kernel's layout asks for."""
    return kernel.layout is KernelLayout.STORED or spec is None or spec.interleaved_rows(isa) > 0


def _one_of(word: str, known: Iterable[str], what: str) -> str:
    """Say that `word` is none of `known`; empty when it is one."""
    if word in known:
        return ""
    hint = did_you_mean(word, known)
    return f"no {what} '{word}'" + (f" ({hint})" if hint else "")


@dataclass(frozen=True, slots=True)
class Reading:
    """What can be made out of a text: the name, what is wrong with it, and the parts that it leaves out at its end."""

    name: KernelName
    problems: tuple[str, ...]
    missing: tuple[Part, ...]


class Grammar:
    """Reads the names that one set of specs gives to its kernels."""

    def __init__(self, specs: SpecSet) -> None:
        self.specs = specs
        self.kernels = {kernel.name: kernel for kernel in specs.kernels}
        self.formats = {spec.name: spec for spec in specs.formats}
        self.isas = tuple(dict.fromkeys(level.isa for target in specs.targets for level in target.levels))
        self.devices = tuple(target.name for target in specs.targets if target.backend is not Backend.CPU)
        self.values = default_values(specs)

    def names(self, kernel: Kernel) -> Iterator[KernelName]:
        """Yield every instance of `kernel` on CPUs, pruned ones too."""
        yield from names_of(kernel, self.specs, self.isas, most_tokens(kernel, self.values))

    def all_names(self) -> Iterator[KernelName]:
        """Yield every instance of every kernel."""
        for kernel in self.specs.kernels:
            yield from self.names(kernel)

    def matching(self, text: str) -> Iterator[KernelName]:
        """Yield the instances that a name, the begin of one, or a pattern with `*` stands for."""
        pattern = text if "*" in text else f"{text}.*"
        yield from (name for name in self.all_names() if str(name) == text or fnmatchcase(str(name), pattern))

    def parse(self, text: str) -> KernelName:
        """Read a whole name. Raises `GeneratorError` with every wrong part, and the nearest right word for each."""
        reading = self.read(text)
        problems = reading.problems
        if reading.missing:
            problems = (*problems, f"{' and '.join(reading.missing)} left out")
        if problems:
            listed = f" '{reading.name.kernel}.*'" if reading.name.kernel in self.kernels else ""
            raise GeneratorError(
                f"'{text}' names no kernel: {', '.join(problems)}", mend=f"strata-gen describe{listed} lists the names"
            )
        return reading.name

    def read(self, text: str) -> Reading:
        """Read a name or the begin of one."""
        first, *words = text.split(".")
        if problem := _one_of(first, self.kernels, "kernel"):
            return Reading(KernelName(first), (problem,), ())
        kernel = self.kernels[first]
        parts = self._parts(kernel, words)
        name, problems = KernelName(first), list[str]()
        for part, word in zip(parts, words, strict=False):
            name, problem = self._readers[part](self, kernel, name, word)
            problems += [problem] if problem else []
        problems += [f"'{word}' is one part too many" for word in words[len(parts) :]]
        return Reading(name, tuple(problems), parts[len(words) :])

    def _parts(self, kernel: Kernel, words: list[str]) -> tuple[Part, ...]:
        """Return the parts of a kernel's names; a kernel without an instruction set may be refused by a device."""
        parts = kernel.parts
        is_refused = Part.ISA not in parts and len(words) > len(parts)
        return (*parts, Part.ISA) if is_refused else parts

    def _format(self, _kernel: Kernel, name: KernelName, word: str) -> tuple[KernelName, str]:
        return replace(name, format=word), _one_of(word, self.formats, "format")

    def _activation(self, kernel: Kernel, name: KernelName, word: str) -> tuple[KernelName, str]:
        known = [tolerance.activation for tolerance in kernel.tolerances]
        if problem := _one_of(word, tuple(Activation) if Part.FORMAT in kernel.parts else known, "activation"):
            return name, problem
        name = replace(name, activation=Activation(word))
        spec = self.formats.get(name.format)
        if spec is not None and spec.activation != word:
            return name, f"{spec.name} takes {spec.activation} inputs, not {word}"
        return name, ""

    def _tokens(self, kernel: Kernel, name: KernelName, word: str) -> tuple[KernelName, str]:
        most = most_tokens(kernel, self.values)
        match = _TOKENS.fullmatch(word)
        if match is None or int(match[1]) > most:
            return name, f"no tokens '{word}': they are t1 to t{most}"
        return replace(name, tokens=int(match[1])), ""

    def _isa(self, kernel: Kernel, name: KernelName, word: str) -> tuple[KernelName, str]:
        known = (*self.isas, *self.devices) if Part.ISA in kernel.parts else self.devices
        problem = _one_of(word, known, "instruction set or GPU target")
        spec = self.formats.get(name.format)
        if not problem and word in self.isas and not has_layout(kernel, spec, word):
            problem = f"{name.format} has no compute layout for {word}"
        return replace(name, isa=word), problem

    _readers: Mapping[Part, Callable[[Grammar, Kernel, KernelName, str], tuple[KernelName, str]]] = {
        Part.FORMAT: _format,
        Part.ACTIVATION: _activation,
        Part.TOKENS: _tokens,
        Part.ISA: _isa,
    }
