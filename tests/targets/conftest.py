"""Specs to test targets with: the project's own, and small ones written by a test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from textwrap import dedent, indent

import pytest

from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs

_HEADER = """\
backend: {backend}
sources:
  guide: {{title: Programming Guide}}
targets:
"""


@pytest.fixture(scope="session")
def specs() -> SpecSet:
    return load_specs((specs_root(),))


@pytest.fixture
def small_specs(tmp_path: Path) -> Callable[..., SpecSet]:
    """Load specs that hold nothing but the targets and knobs given as YAML list items."""

    def load(targets: str, *, backend: str = "cuda", knobs: str = "") -> SpecSet:
        root = tmp_path / "specs"
        texts = {"targets": _HEADER.format(backend=backend) + indent(dedent(targets), "  ")}
        if knobs:
            texts["knobs"] = "knobs:\n" + indent(dedent(knobs), "  ")
        for folder, text in texts.items():
            (root / folder).mkdir(parents=True, exist_ok=True)
            (root / folder / "small.yaml").write_text(text)
        return load_specs((root,))

    return load
