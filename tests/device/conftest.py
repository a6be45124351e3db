from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.device import WAVES, Machine, compile_machine


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    """The kernels at waves of 1, 32 and 64 lanes."""
    with Machine(compile_machine(tmp_path_factory.mktemp("generated"))) as made:
        yield made


@pytest.fixture(params=WAVES)
def wave(request: pytest.FixtureRequest) -> int:
    return int(request.param)
