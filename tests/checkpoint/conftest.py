from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata_runtime.checkpoint.config import read_config
from strata_runtime.checkpoint.folder import open_folder
from strata_runtime.checkpoint.network import read_network
from strata_runtime.checkpoint.weights import Weights, load_weights
from support.checkpoints import make_config, write_checkpoint
from support.reference_provider import generated_families


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A sound checkpoint in one file, to be spoilt."""
    return write_checkpoint(tmp_path / "model", make_config())


@pytest.fixture
def load() -> Callable[[Path], Weights]:
    """Read a folder as `Model.load` does, up to the weights."""

    def read(folder: Path) -> Weights:
        config = read_config(folder, generated_families())
        network = read_network(config)
        return load_weights(open_folder(folder), config, network.layers)

    return read
