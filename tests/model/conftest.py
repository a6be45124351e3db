from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from support.checkpoints import make_config, write_checkpoint
from support.compiled import compiled_provider
from support.reference_provider import ReferenceProvider, make_settings

LoadModel = Callable[..., Model]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random checkpoint in the manner of strata-tiny."""
    return write_checkpoint(tmp_path_factory.mktemp("tiny") / "model", make_config())


@pytest.fixture(params=["reference", pytest.param("compiled", marks=pytest.mark.native)])
def load_model(request: pytest.FixtureRequest) -> Iterator[LoadModel]:
    """Loads models with the reference of the native module, and with the compiled one. Closes them."""
    models: list[Model] = []

    def load(folder: Path, expert_format: str = "stored", draft: str = "none") -> Model:
        if request.param == "reference":
            model = Model.load(folder, ReferenceProvider(), make_settings(expert_format, draft))
        else:
            provider = compiled_provider()
            chosen = {"engine_expert_format": expert_format, "window_draft": draft}
            resolution = resolve(provider.knobs, environ={}, python=chosen)
            model = Model.load(folder, provider, provider.settings_type.from_values(resolution.values))
        models.append(model)
        return model

    yield load
    for model in models:
        model.close()


@pytest.fixture
def model(tiny: Path) -> Iterator[Model]:
    """The small checkpoint on the reference of the native module."""
    loaded = Model.load(tiny, ReferenceProvider(), make_settings())
    yield loaded
    loaded.close()
