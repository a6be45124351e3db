"""What kernels can get wrong beyond one file: names of other specs that lead nowhere."""

from __future__ import annotations

from collections.abc import Collection

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.model.kernel import Kernel, KernelLayout, Part
from strata_gen.model.knob import Affects, Knob, KnobType
from strata_gen.model.specset import SpecSet


class _Checker:
    def __init__(self, specs: SpecSet, sink: Sink) -> None:
        self.specs, self.sink = specs, sink
        self.knobs = {knob.name: knob for knob in specs.knobs}
        self.levels = {level.isa for target in specs.targets for level in target.levels}

    def known(self, kernel: Kernel, what: str, name: str, names: Collection[str]) -> bool:
        if name in names:
            return True
        message = f"kernel '{kernel.name}' names {what} '{name}', which does not exist"
        self.sink.error("N030", message, kernel.span, did_you_mean(name, names))
        return False

    def check_tokens(self, kernel: Kernel, knob: Knob) -> None:
        note = Note("the knob", knob.span)
        if knob.affects is not Affects.COMPILE:
            message = f"kernel '{kernel.name}' is built per value of '{knob.name}', which is no compile-time knob"
            self.sink.error("N031", message, kernel.span, notes=(note,))
        elif knob.type is not KnobType.INT:
            message = f"kernel '{kernel.name}' is built for 1 to '{knob.name}' tokens, which is no whole number"
            self.sink.error("N031", message, kernel.span, notes=(note,))

    def check_formats(self, kernel: Kernel) -> None:
        if Part.FORMAT not in kernel.parts:
            return
        for spec in self.specs.formats:
            is_asked = kernel.layout is KernelLayout.STORED or spec.layouts
            if is_asked and kernel.tolerance(spec.activation) is None:
                note = Note(f"format '{spec.name}' takes them", spec.span)
                message = f"kernel '{kernel.name}' states no tolerance for {spec.activation} inputs"
                self.sink.error("N032", message, kernel.span, notes=(note,))

    def check_variants(self, kernel: Kernel) -> None:
        variants = kernel.variants
        if variants is None:
            return
        if isinstance(variants.tokens, str) and self.known(kernel, "knob", variants.tokens, self.knobs):
            self.check_tokens(kernel, self.knobs[variants.tokens])
        for pruning in variants.prune:
            for isa in (pruning.isa, pruning.covered_by):
                self.known(kernel, "instruction set", isa, self.levels)


def check_kernels(specs: SpecSet, sink: Sink) -> None:
    """Report names that lead nowhere and repeated names."""
    checker = _Checker(specs, sink)
    seen: dict[str, Kernel] = {}
    micro = [kernel.name for kernel in specs.kernels if kernel.is_micro]
    for kernel in sorted(specs.kernels, key=lambda kernel: kernel.span):
        if kernel.name in seen:
            first = Note("the first one", seen[kernel.name].span)
            sink.error("N033", f"two kernels are named '{kernel.name}'", kernel.span, notes=(first,))
        seen.setdefault(kernel.name, kernel)
        for knob in kernel.knobs:
            checker.known(kernel, "knob", knob, checker.knobs)
        for used in kernel.uses:
            checker.known(kernel, "micro-kernel", used, micro)
        checker.check_variants(kernel)
        checker.check_formats(kernel)
