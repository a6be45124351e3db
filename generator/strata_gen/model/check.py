"""What needs several files to be checked: one function per kind, all reporting into one sink."""

from __future__ import annotations

from strata_gen.diagnostics import Sink
from strata_gen.model.check_family import check_families
from strata_gen.model.check_format import check_formats
from strata_gen.model.check_kernel import check_kernels
from strata_gen.model.check_knob import check_knobs
from strata_gen.model.check_protocol import check_protocols
from strata_gen.model.check_target import check_targets
from strata_gen.model.specset import SpecSet


def check_specs(specs: SpecSet, sink: Sink) -> None:
    """Report everything that is wrong between specs which are each right by themselves."""
    for check in (check_knobs, check_targets, check_formats, check_kernels, check_families, check_protocols):
        check(specs, sink)
