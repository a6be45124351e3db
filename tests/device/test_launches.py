"""Launch geometry and parameters of device kernels: what the specs say is what the C++ has."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from typing import Any

import jinja2
import pytest
from jinja2 import meta

from strata_gen.emitter import Emitter
from strata_gen.model.kernel import Kernel, Launch, Tiles
from strata_gen.paths import runtime_root, specs_root, templates_root
from strata_gen.render import render
from strata_gen.resolve import find_target, make_plan
from strata_gen.specs import load_specs
from strata_gen.views import launches

SPECS = load_specs((specs_root(),))
DEVICE = [kernel for kernel in SPECS.kernels if kernel.launch is not None]


def header(*kernels: Kernel, backend: str = "cpu", target: str = "x86-64-v2") -> str:
    specs = replace(SPECS, kernels=kernels)
    files = render(make_plan(specs, find_target(specs, backend, target), {}), launches.EMITTERS)
    return next(file.text for file in files if file.path == launches.PATH)


def test_blocks_are_the_product_of_the_tiles() -> None:
    launch = Launch(256, (Tiles("tokens", 1), Tiles("hidden", 1024)))
    text = header(replace(DEVICE[0], name="row_sum", launch=launch))
    assert "struct RowSumLaunch {" in text
    assert "static constexpr int kHiddenPerBlock = 1024;" in text
    assert "static constexpr int threads(int) { return 256; }" in text
    assert "static constexpr int blocks(int tokens, int hidden) { return tokens * ((hidden + 1023) / 1024); }" in text


def test_one_wave_and_one_block_are_what_is_left_out() -> None:
    text = header(replace(DEVICE[0], launch=Launch(None, ())))
    assert "static constexpr int threads(int wave) { return wave; }" in text
    assert "static constexpr int blocks() { return 1; }" in text


@pytest.mark.parametrize(("backend", "target"), [("cuda", "sm_86"), ("hip", "gfx942")])
def test_every_backend_has_the_same_geometry(backend: str, target: str) -> None:
    assert header(*DEVICE, backend=backend, target=target) == header(*DEVICE)


@pytest.mark.parametrize(
    ("emitter", "view"),
    list(zip(launches.EMITTERS, (launches.LaunchesView, launches.FormatLaunchesView), strict=True)),
)
def test_templates_use_every_field_of_their_views(emitter: Emitter, view: type[Any]) -> None:
    source = (templates_root() / emitter.template).read_text()
    used = meta.find_undeclared_variables(jinja2.Environment().parse(source))
    assert used == {field.name for field in fields(view)} | {"banner"}


def test_a_cuda_tree_launches_every_kernel_that_reads_weights_in_every_format() -> None:
    files = render(make_plan(SPECS, find_target(SPECS, "cuda", "sm_86"), {}), launches.EMITTERS)
    launched = "".join(file.text for file in files if file.path.endswith(".cu"))
    for kernel in ("EmbedRows", "ExpertDown", "ExpertGateUp", "ToFloats", "WindowLinear"):
        for spec in SPECS.formats:
            assert f"STRATA_LAUNCH(strata::device::{kernel}<strata::formats::{spec.type_name}>);" in launched


@pytest.mark.parametrize("kernel", DEVICE, ids=lambda kernel: kernel.name)
def test_the_parameters_of_the_spec_are_the_pointers_of_the_body(kernel: Kernel) -> None:
    text = (runtime_root() / "include" / kernel.body).read_text()
    arguments = re.search(r"^  struct Args \{\n(.*?)^  \};", text, re.MULTILINE | re.DOTALL)
    assert arguments is not None
    pointers = re.findall(r"^    (const )?\S+\* (\w+)(?:\[\w+\])?(?: = nullptr)?;", arguments[1], re.MULTILINE)
    assert [(p.name, p.access == "read") for p in kernel.parameters] == [(name, bool(c)) for c, name in pointers]
