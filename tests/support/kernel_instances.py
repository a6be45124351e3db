"""The kernel instances of the project's specs."""

from __future__ import annotations

from functools import cache

from strata_gen.model.instances import built
from strata_gen.model.kernel_name import KernelName, default_values
from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs

LIBRARY = ("cpu", "x86-64-v2")
"""The target whose library has every level."""


@cache
def project_specs() -> SpecSet:
    return load_specs((specs_root(),))


def built_names(kernel: str) -> list[KernelName]:
    """All instances of one kernel in the library of every level."""
    specs = project_specs()
    names = built(specs, find_target(specs, *LIBRARY), default_values(specs))
    return [name for name in names if name.kernel == kernel]
