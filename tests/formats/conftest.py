from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.provider import Provider
from support.kernels import Kernels
from support.native_package import build_tree, open_package


@pytest.fixture(scope="session")
def specs() -> SpecSet:
    return load_specs((specs_root(),))


@pytest.fixture(scope="session")
def tree() -> Path:
    """The emitted tree of a package with every level."""
    return build_tree()


@pytest.fixture(scope="session")
def provider(tree: Path) -> Provider:
    """A package with every level."""
    return open_package()


@pytest.fixture(scope="session")
def native(provider: Provider) -> Any:
    return provider.native


@pytest.fixture(params=["generic", "avx2", "avx512", "avx512vnni", "avx512vnni arranged"])
def kernels(request: pytest.FixtureRequest, native: Any, provider: Provider) -> Iterator[Kernels]:
    """The package's operations on numpy arrays, at each level that this CPU can run, with two workers.

    Once more where the level has compute layouts, with weights arranged.
    """
    isa, _, arranged = request.param.partition(" ")
    if isa not in native.ISAS:
        pytest.skip(f"this CPU has no {isa}")
    with Kernels(provider, isa=isa, knobs={"pool.threads": "2"}, arranged=bool(arranged)) as made:
        yield made
