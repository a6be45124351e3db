"""What a benchmark of a model on a GPU measures: its windows are one launch, whose parts nobody can time."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from strata_runtime.bench.cases import Case
from strata_runtime.bench.subject import Subject
from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from support.compiled import compiled_provider

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"


@pytest.mark.native
@pytest.mark.parametrize("device", [None, torch.device("cpu")])
def test_parts_are_told_where_the_pool_computes_the_layers(device: torch.device | None) -> None:
    provider = compiled_provider()
    settings = provider.settings_type.from_values(resolve(provider.knobs, environ={}, python={}).values)
    model = Model.load(MODEL, provider, settings, device=device)
    pool = provider.native.make_pool([("pool.threads", "1")])
    case = Case("decode", 2, 0, 1)
    with Subject(model, provider.native, {1: pool}, positions=16, chunk=8, seed=0) as subject:
        assert subject.has_parts == (device is None)
        assert subject.seconds(case, 0) > 0
