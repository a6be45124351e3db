"""All specs of one run."""

from __future__ import annotations

from dataclasses import dataclass

from strata_gen.model.family import Family
from strata_gen.model.format import Format
from strata_gen.model.kernel import Kernel
from strata_gen.model.knob import Knob
from strata_gen.model.protocol import Protocol
from strata_gen.model.target import Target


@dataclass(frozen=True, slots=True)
class SpecSet:
    """Every validated spec, each tuple sorted by name."""

    knobs: tuple[Knob, ...]
    targets: tuple[Target, ...]
    formats: tuple[Format, ...]
    kernels: tuple[Kernel, ...]
    families: tuple[Family, ...]
    protocols: tuple[Protocol, ...]
