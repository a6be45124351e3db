"""A provider without a compiled package: the families of the project's specs, and a reference native module."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import torch

from strata_gen.diagnostics import Sink
from strata_gen.edge.base import read_edges
from strata_gen.edge.family import FAMILY
from strata_gen.load.document import read_document
from strata_gen.model.family import Family
from strata_gen.paths import specs_root, templates_root
from strata_gen.render import make_environment
from strata_gen.views.families import TEMPLATE, family_view
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.families import FamilyInfo
from strata_runtime.formats import Field, FormatInfo, Integers, Plane
from support.reference_native import ReferenceNative


@cache
def family_specs(root: Path | None = None) -> tuple[Family, ...]:
    """The families of a folder of specs, unless it is given of the project's own."""
    sink = Sink()
    found: list[Family] = []
    for path in sorted(((root or specs_root()) / "models").glob("*.yaml")):
        document = read_document(path, f"specs/models/{path.name}", sink)
        found += read_edges(FAMILY, (document,), sink) if document else ()
    sink.raise_if_any()
    return tuple(found)


@cache
def generated_families(root: Path | None = None) -> tuple[FamilyInfo, ...]:
    """What a kernels package's `families.py` holds, rendered and executed here; `root` as in `family_specs`."""
    template = make_environment(templates_root()).get_template(TEMPLATE)
    text = template.render(banner="# generated", families=tuple(map(family_view, family_specs(root))))
    module: dict[str, object] = {}
    exec(compile(text, "families.py", "exec"), module)
    families = module["FAMILIES"]
    assert isinstance(families, tuple)
    return families


FORMATS = (
    FormatInfo("bf16", "", "", 1, 2, values=Field("bf16", 0, 1), encodes=True, safetensors="BF16", gguf="BF16"),
    FormatInfo("f32", "", "", 1, 4, values=Field("f32", 0, 1), encodes=True, safetensors="F32", gguf="F32"),
    FormatInfo(
        "q8_0",
        "",
        "",
        32,
        34,
        quants=Integers((32,), (Plane(2, 8, 0, 0, (8,), (None,), True),)),
        scale=Field("f16", 0, 1),
        activation="int8",
        encodes=True,
        gguf="Q8_0",
    ),
)


def stored(values: torch.Tensor) -> Stored:
    """A tensor as a checkpoint stores it, in the format of its dtype."""
    form = {torch.bfloat16: FORMATS[0], torch.float32: FORMATS[1]}[values.dtype]
    data = values.contiguous().view(torch.uint8).numpy().reshape(-1)
    return Stored("a test", form, tuple(values.shape), data)


@dataclass(frozen=True)
class ReferenceProvider:
    """Has what `Model.load` asks a provider for."""

    native: ReferenceNative = field(default_factory=ReferenceNative)
    name: str = "reference"
    backend: str = "cpu"
    knobs: tuple[object, ...] = ()
    formats: tuple[FormatInfo, ...] = FORMATS
    families: tuple[FamilyInfo, ...] = field(default_factory=generated_families)


def make_settings(expert_format: str = "stored", draft: str = "none") -> SimpleNamespace:
    """The settings that a model reads."""
    return SimpleNamespace(
        engine=SimpleNamespace(expert_format=expert_format, weight_layout="auto", context=64),
        pool=SimpleNamespace(),
        window=SimpleNamespace(draft=draft, max_tokens=8),
        verify=SimpleNamespace(defer_cpu="0", device_plan=False, ecap=None, profile=False),
        route=SimpleNamespace(tail_skip=0),
        expert=SimpleNamespace(cache=0, profile=None, adapt=False, pcie_frac=0.0),
    )
