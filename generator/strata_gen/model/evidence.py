"""Where a kernel is proved: every place follows from its name, so that none has to be typed or kept in step."""

from __future__ import annotations

from strata_gen.model.kernel_name import KernelName

REFERENCES = "tests/support/references.py"
PARITY_TESTS = "tests/kernels/test_parity.py"
BENCHMARK = "bench/kernels.py"


def reference_function(kernel: str) -> str:
    """Return the function that computes what a kernel is compared with, as `file::function`."""
    return f"{REFERENCES}::{kernel}"


def parity_test(kernel: str) -> str:
    """Return the test that compares every instance of a kernel with the reference, as pytest names it."""
    return f"{PARITY_TESTS}::test_{kernel}"


def parity_test_of(name: KernelName) -> str:
    """Return the test of one instance."""
    return f"{parity_test(name.kernel)}[{name}]"


def benchmark(pattern: str) -> str:
    """Return the command that times the instances which `pattern` names."""
    return f"python {BENCHMARK} --kernel {pattern}"
