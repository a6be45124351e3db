from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from strata_gen.model.kernel_name import KernelName
from strata_gen.model.specset import SpecSet
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider
from support.called_kernels import CalledKernels
from support.kernel_instances import project_specs
from support.native_package import TEST_PACKAGE, build_tree, open_package


@pytest.fixture(scope="session")
def specs() -> SpecSet:
    return project_specs()


@pytest.fixture(scope="session")
def provider() -> Provider:
    """A package with every level."""
    if TEST_PACKAGE in os.environ:
        return find_provider({PATH_VARIABLE: os.environ[TEST_PACKAGE]})
    build_tree()
    return open_package()


@pytest.fixture
def kernels(
    request: pytest.FixtureRequest, provider: Provider, record_property: Callable[[str, object], None]
) -> Iterator[CalledKernels]:
    """Kernels at the level of the test's parameter `name`. A test that ends without calling that instance fails."""
    name: KernelName = request.node.callspec.params["name"]
    native: Any = provider.native
    if name.isa and name.isa not in native.ISAS:
        pytest.skip(f"this CPU has no {name.isa}")
    with CalledKernels(provider, isa=name.isa or None, knobs={"pool.threads": "2", "pool.claim_rows": "32"}) as made:
        yield made
        for called in sorted(made.called):
            record_property("called", called)
        assert str(name) in made.called, f"the test of {name} never called it"
