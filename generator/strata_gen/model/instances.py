"""Which instances of the kernels a target's library holds, and what serves where one is left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from strata_gen.model.kernel import Kernel, Pruning
from strata_gen.model.kernel_name import KernelName, most_tokens, names_of
from strata_gen.model.knob import KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import CpuLevel, Target


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance on one target. `pruning` says why it is not built there, if so; `serves` is then what is used."""

    name: KernelName
    serves: KernelName
    pruning: Pruning | None


def pruning_of(kernel: Kernel, name: KernelName, levels: Sequence[CpuLevel]) -> Pruning | None:
    """Return the rule that leaves an instance out of a library with these levels; None when it is built."""
    present = {level.isa for level in levels}
    for pruning in kernel.variants.prune if kernel.variants else ():
        if pruning.isa == name.isa and pruning.activation is name.activation and pruning.covered_by in present:
            return pruning
    return None


def instances(kernel: Kernel, specs: SpecSet, target: Target, values: Mapping[str, KnobValue]) -> Iterator[Instance]:
    """Yield every instance of `kernel` on `target`, pruned ones too; nothing where the target refuses the kernel.

    `values` are those of the build-time knobs.
    """
    if kernel.refusal(target) is not None:
        return
    isas = dict.fromkeys(level.isa for level in target.levels)
    for name in names_of(kernel, specs, isas, most_tokens(kernel, values)):
        pruning = pruning_of(kernel, name, target.levels)
        yield Instance(name, replace(name, isa=pruning.covered_by) if pruning else name, pruning)


def built(specs: SpecSet, target: Target, values: Mapping[str, KnobValue]) -> tuple[KernelName, ...]:
    """Return the name of every instance of every kernel that a library for `target` holds."""
    found = (instance for kernel in specs.kernels for instance in instances(kernel, specs, target, values))
    return tuple(instance.name for instance in found if instance.pruning is None)
