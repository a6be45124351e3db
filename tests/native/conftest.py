from __future__ import annotations

import pytest

from strata_runtime.provider import Provider
from support.native_package import build_tree, open_package


@pytest.fixture(scope="session")
def provider() -> Provider:
    """A package with every level."""
    build_tree()
    return open_package()
