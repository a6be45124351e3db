"""What a name means, part by part: kernel instances first of all, and what they are made of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from strata_gen.describe_facts import (
    Fact,
    activation_fact,
    code_facts,
    evidence_facts,
    format_fact,
    isa_fact,
    kernel_fact,
    knob_fact,
    target_facts,
    tokens_fact,
    where,
)
from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError
from strata_gen.model.evidence import parity_test, parity_test_of
from strata_gen.model.format import Activation
from strata_gen.model.instances import pruning_of
from strata_gen.model.kernel import Kernel, Part
from strata_gen.model.kernel_name import Grammar, KernelName, has_layout, most_tokens
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend, Target
from strata_gen.resolve import targets_in_order


@dataclass(frozen=True, slots=True)
class Description:
    """All that is said of one name. `status` is what becomes of it, in a few words."""

    name: str
    status: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Listed:
    """One line of a list of instances."""

    name: str
    status: str


class Describer:
    """Describes names of one set of specs."""

    def __init__(self, specs: SpecSet) -> None:
        self.grammar = Grammar(specs)
        # What `native` has is one of the others' levels, alone.
        self.cpus = [each for each in targets_in_order(specs.targets) if each.levels and not each.native]
        self.targets = {target.name: target for target in specs.targets}
        self.devices = {target.name: target for target in specs.targets if target.backend is not Backend.CPU}
        self.knobs = {knob.name: knob for knob in specs.knobs}

    def describe(self, text: str) -> Description | tuple[Listed, ...]:
        """Describe a name; list the instances that a pattern with `*` or the begin of a name stands for (all for none).

        Raises `GeneratorError` for what means nothing, with the nearest right word for each part.
        """
        if not text or "*" in text:
            return self._matching(text or "*")
        if (kernel := self.grammar.kernels.get(text)) is not None and kernel.parts:
            return Description(text, _support(kernel), tuple(self._kernel(kernel)))
        reading = self.grammar.read(text)
        if not reading.problems:
            if reading.missing:
                return self._matching(text)
            return Description(text, self._status(reading.name), tuple(self._instance(reading.name)))
        if (other := self._other(text)) is not None:
            return Description(text, *other)
        if reading.name.kernel in self.grammar.kernels:
            self.grammar.parse(text)
        known = (*self.grammar.kernels, *self.grammar.formats, *self.grammar.isas, *self.targets, *self.knobs)
        hint = did_you_mean(text, known) or did_you_mean(reading.name.kernel, known)
        raise GeneratorError(f"nothing is named '{text}'", mend=hint or "strata-gen describe lists every instance")

    def _matching(self, pattern: str) -> tuple[Listed, ...]:
        found = list(self.grammar.matching(pattern))
        if not found:
            raise GeneratorError(f"no kernel instance matches '{pattern}'", mend="strata-gen describe lists them")
        return tuple(Listed(str(name), self._status(name)) for name in found)

    def _status(self, name: KernelName) -> str:
        kernel = self.grammar.kernels[name.kernel]
        if name.isa in self.devices and (reason := kernel.refusal(self.devices[name.isa])):
            return f"refused: {reason}"
        rules = (pruning_of(kernel, name, target.levels) for target in self._having(name.isa))
        beside = dict.fromkeys(rule.covered_by for rule in rules if rule is not None)
        return f"built, except beside {' and '.join(beside)}" if beside else "built"

    def _having(self, isa: str) -> list[Target]:
        """Return the CPU targets with an instruction set (all of them when a name has none), or the device it names."""
        if isa in self.devices:
            return [self.devices[isa]]
        return [target for target in self.cpus if not isa or isa in {level.isa for level in target.levels}]

    def _instance(self, name: KernelName) -> Iterator[Fact]:
        kernel = self.grammar.kernels[name.kernel]
        yield kernel_fact(kernel)
        if name.format:
            yield format_fact(self.grammar.formats[name.format])
        if name.activation is not None:
            yield activation_fact(name.activation)
        if name.tokens:
            yield self._tokens(kernel, f"t{name.tokens}: as many input vectors in one call")
        if name.isa in self.devices:
            device = self.devices[name.isa]
            yield target_facts(device)[0]
            if reason := kernel.refusal(device):
                yield Fact("refused", (reason,), where(kernel.span))
                return
        elif name.isa:
            yield self._isa(name.isa)
        yield from self._places(kernel, name)
        yield from self._code(kernel, name)
        allowed = kernel.tolerances if name.activation is None else (kernel.tolerance(name.activation),)
        yield Fact("tolerance", tuple(str(tolerance) for tolerance in allowed), where(kernel.span))
        yield from evidence_facts(kernel, str(name), parity_test_of(name))

    def _places(self, kernel: Kernel, name: KernelName) -> Iterator[Fact]:
        rules = {
            f"{target.backend} {target.name}": pruning_of(kernel, name, target.levels)
            for target in self._having(name.isa)
        }
        having = ", ".join(target for target, rule in rules.items() if rule is None)
        if name.isa not in self.devices:
            having += "; cpu native on a CPU whose best level it is" if name.isa else ", cpu native"
        yield Fact("built for", (having,))
        for rule in dict.fromkeys(rule for rule in rules.values() if rule is not None):
            without = ", ".join(target for target, other in rules.items() if other == rule)
            serves = f"{replace(name, isa=rule.covered_by)} serves: {rule.reason}"
            yield Fact("left out for", (without, serves), where(kernel.span))

    def _code(self, kernel: Kernel, name: KernelName) -> Iterator[Fact]:
        yield from code_facts(kernel, name)
        if kernel.uses:
            yield Fact("made of", tuple(self._used(kernel, name)))
        if kernel.knobs:
            yield Fact("knobs", tuple(f"{knob}: {self.knobs[knob].help}" for knob in kernel.knobs))
        if kernel.facts:
            yield Fact("target facts", kernel.facts)

    def _used(self, kernel: Kernel, name: KernelName) -> Iterator[str]:
        """Yield what a kernel made of micro-kernels runs, as patterns where that is several instances."""
        for used in kernel.uses:
            parts = self.grammar.kernels[used].parts
            if Part.FORMAT not in parts and Part.ACTIVATION in parts and name.activation is Activation.FLOAT:
                continue  # float inputs are taken as they are
            spec = self.grammar.formats.get(name.format)
            if name.isa in self.grammar.isas and not has_layout(self.grammar.kernels[used], spec, name.isa):
                continue
            yield ".".join((used, *(name.text(part) or "*" for part in parts)))

    def _kernel(self, kernel: Kernel) -> Iterator[Fact]:
        yield kernel_fact(kernel)
        form = ".".join((kernel.name, *(part.upper() for part in kernel.parts)))
        count = sum(1 for _ in self.grammar.names(kernel))
        yield Fact("instances", (f"{count}, named {form}", f"strata-gen describe '{kernel.name}.*' lists them"))
        if Part.TOKENS in kernel.parts:
            yield self._tokens(kernel, "an instance for each number of input vectors in one call")
        for rule in kernel.variants.prune if kernel.variants else ():
            text = f"{rule.activation} inputs for {rule.isa}, where {rule.covered_by} is built too"
            yield Fact("left out", (text, rule.reason), where(kernel.span))
        yield from self._code(kernel, KernelName(kernel.name))
        tolerances = (f"{each.activation}: {each}" for each in kernel.tolerances)
        yield Fact("tolerance", tuple(tolerances), where(kernel.span))
        for refusal in kernel.refused:
            yield Fact("refused", (f"{refusal.backend}: {refusal.reason}",), where(kernel.span))
        yield from evidence_facts(kernel, kernel.name, parity_test(kernel.name))

    def _other(self, text: str) -> tuple[str, tuple[Fact, ...]] | None:
        """Describe a format, an instruction set, a target or a knob: what it is, and what is known of it."""
        if (spec := self.grammar.formats.get(text)) is not None:
            fields = Fact("fields", tuple(f"{field.name}: {field.help}" for field in spec.fields))
            return "format", (format_fact(spec), activation_fact(spec.activation), fields)
        if text in self.grammar.isas:
            return "instruction set", (self._isa(text),)
        if text in self.targets:
            return "target", target_facts(self.targets[text])
        if text in self.knobs:
            return "knob", (knob_fact(self.knobs[text]),)
        return None

    def _isa(self, isa: str) -> Fact:
        having = self._having(isa)
        return isa_fact([level for target in having for level in target.levels if level.isa == isa], having)

    def _tokens(self, kernel: Kernel, text: str) -> Fact:
        assert kernel.variants is not None
        knob = self.knobs[kernel.variants.tokens] if isinstance(kernel.variants.tokens, str) else None
        return tokens_fact(text, most_tokens(kernel, self.grammar.values), knob, kernel)


def _support(kernel: Kernel) -> str:
    refused = ", ".join(refusal.backend for refusal in kernel.refused)
    return f"built for {', '.join(kernel.backends)}" + (f"; refused for {refused}" if refused else "")
