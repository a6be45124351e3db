"""The example of the engine's documentation runs as it stands, on the bundled model."""

import doctest
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest

import strata_runtime.batch.batch
import strata_runtime.engine
from support.fake_engine import KNOBS, Settings, knob
from support.reference_provider import ReferenceProvider

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"


@dataclass(frozen=True)
class Provider(ReferenceProvider):
    """The numpy reference with settings: slow, and needs no compiler."""

    backend: str = "cpu"
    arch: str = "reference"
    knobs: tuple = (
        *KNOBS,
        knob("engine.expert_format", "enum", "stored", choices=("stored", "f32")),
        knob("engine.weight_layout", "enum", "auto", choices=("auto", "stored")),
        knob("verify.profile", "bool", False),
    )
    settings_type: type = Settings
    manifest: SimpleNamespace = field(default_factory=lambda: SimpleNamespace(key="reference"))


@pytest.mark.skipif(not MODEL.is_dir(), reason="the bundled model is not there")
@pytest.mark.parametrize("module", [strata_runtime.engine, strata_runtime.batch.batch], ids=lambda each: each.__name__)
def test_the_documented_example_runs(monkeypatch, module):
    monkeypatch.setattr("strata_runtime.engine.find_provider", lambda _: Provider())
    found = doctest.DocTestFinder().find(module, "example", globs={"MODEL": MODEL})
    example = next(test for test in found if test.name == "example")
    assert example.examples
    said = []
    doctest.DocTestRunner().run(example, out=said.append)
    assert not said, "".join(said)
