"""What kernels can get wrong beyond one file: names of other specs that lead nowhere."""

from __future__ import annotations

from collections.abc import Collection

from strata_gen.diagnostics import Note, Sink, did_you_mean
from strata_gen.model.kernel import Kernel
from strata_gen.model.knob import Affects
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

    def check_variants(self, kernel: Kernel) -> None:
        variants = kernel.variants
        if variants is None:
            return
        is_known = self.known(kernel, "knob", variants.tokens, self.knobs)
        if is_known and self.knobs[variants.tokens].affects is not Affects.COMPILE:
            note = Note("the knob", self.knobs[variants.tokens].span)
            message = f"kernel '{kernel.name}' is built per value of '{variants.tokens}', which is no compile-time knob"
            self.sink.error("N031", message, kernel.span, notes=(note,))
        for pruning in variants.prune:
            for isa in (pruning.isa, pruning.covered_by):
                self.known(kernel, "instruction set", isa, self.levels)


def check_kernels(specs: SpecSet, sink: Sink) -> None:
    """Report names that lead nowhere and repeated names."""
    checker = _Checker(specs, sink)
    seen: dict[str, Kernel] = {}
    micro = [kernel.name for kernel in specs.kernels if kernel.variants is not None]
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
