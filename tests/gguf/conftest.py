from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from support.compiled import compiled_provider
from support.reference_provider import ReferenceProvider, make_settings

LoadModel = Callable[[Path], Model]


@pytest.fixture
def load() -> Iterator[LoadModel]:
    """Loads models with the reference of the native module. Closes them."""
    models: list[Model] = []

    def read(path: Path) -> Model:
        models.append(Model.load(path, ReferenceProvider(), make_settings()))
        return models[-1]

    yield read
    for model in models:
        model.close()


@pytest.fixture
def load_compiled() -> Iterator[LoadModel]:
    """Loads models with the compiled module. Closes them."""
    models: list[Model] = []

    def read(path: Path) -> Model:
        provider = compiled_provider()
        settings = provider.settings_type.from_values(resolve(provider.knobs, environ={}).values)
        models.append(Model.load(path, provider, settings))
        return models[-1]

    yield read
    for model in models:
        model.close()
