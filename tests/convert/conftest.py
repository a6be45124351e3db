from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from strata_runtime.convert.choice import choose_formats
from strata_runtime.convert.run import Conversion, convert
from strata_runtime.model import Model
from support.reference_provider import ReferenceProvider, make_settings

LoadModel = Callable[[Path], Model]
Convert = Callable[..., Conversion]


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
def to_gguf() -> Convert:
    """Converts with the reference of the native module, by default to F32 and without a tokenizer."""

    def run(folder: Path, out: Path, experts: str = "f32", dense: str | None = None, **options: Any) -> Conversion:
        provider: Any = ReferenceProvider()
        formats = choose_formats(provider.formats, experts, dense, options.pop("vocabulary", None))
        return convert(folder, out, formats, provider, **{"tokenizer": False, **options})

    return run
