from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from strata_runtime.checkpoint.network import read_network
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.checkpoint.weights import Weights, load_weights
from support.checkpoints import make_config, write_checkpoint
from support.reference_provider import FORMATS, generated_families


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """A sound checkpoint in one file, to be spoilt."""
    return write_checkpoint(tmp_path / "model", make_config())


@pytest.fixture
def load() -> Callable[[Path], Weights]:
    """Read a folder or file as `Model.load` does, up to the weights."""

    def read(path: Path) -> Weights:
        checkpoint = open_checkpoint(path, generated_families(), FORMATS)
        network = read_network(checkpoint.config)
        return load_weights(checkpoint.tensors, checkpoint.config, checkpoint.layout, network.layers)

    return read
