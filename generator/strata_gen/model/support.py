"""The support matrix: every kernel on every target is built or refused with a reason, and nothing is left out."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.model.kernel import Kernel
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Target


@dataclass(frozen=True, slots=True)
class Cell:
    """One kernel on one target. `refusal` is the reason why it is not built; None when it is."""

    kernel: Kernel
    target: Target
    refusal: str | None


def support_matrix(specs: SpecSet) -> tuple[Cell, ...]:
    """Return a cell for every pair of target and kernel, in the order of the spec set."""
    return tuple(Cell(kernel, target, kernel.refusal(target)) for target in specs.targets for kernel in specs.kernels)
