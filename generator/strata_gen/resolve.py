"""Stage 3: one target and one set of build-time values, settled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from strata_gen.model.knob import KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Target


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be generated: the specs, one concrete target, and the value of every `affects: compile` knob."""

    specs: SpecSet
    target: Target
    compile_values: Mapping[str, KnobValue]

    @property
    def package(self) -> str:
        """Import name of the kernels package, e.g. `strata_kernels_cpu_native`."""
        return f"strata_kernels_{self.target.backend}_{self.target.package_suffix}"
