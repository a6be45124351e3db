"""Networks that pick more experts than the kernels of a package take."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_runtime.errors import UserError
from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from support.checkpoints import make_qwen_config, write_checkpoint
from support.compiled import compiled_provider

pytestmark = pytest.mark.native


def test_more_picks_than_the_kernels_take_are_refused_at_load(tmp_path: Path) -> None:
    folder = write_checkpoint(tmp_path / "model", make_qwen_config(num_experts=20, num_experts_per_tok=17))
    provider = compiled_provider()
    settings = provider.settings_type.from_values(resolve(provider.knobs, environ={}).values)
    with pytest.raises(UserError, match=r"picks 17 of 20 experts.*top_k must be from 1 to window\.max_top_k.*--set"):
        Model.load(folder, provider, settings)
