from __future__ import annotations

import pytest

from strata_runtime.provider import Provider
from support.compiled import compiled_provider


@pytest.fixture(scope="session")
def provider() -> Provider:
    """The package of this machine's CPU."""
    return compiled_provider()
