"""Launch geometry and parameters of device kernels: what the specs say is what the C++ has."""

from __future__ import annotations

import re
import subprocess
from dataclasses import fields, replace
from pathlib import Path
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
from support.compiler import compiler_words
from support.device import generated_sources

SPECS = load_specs((specs_root(),))
BY_TILES = ("attend_tiles", "attend_square_tiles")
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
    body = runtime_root() / "include" / kernel.body
    text = body.read_text()
    shared = re.search(r"^  using Args = (\w+);", text, re.MULTILINE)
    if shared is not None:
        text = "".join(each.read_text() for each in body.parent.glob("*.hpp"))
    name = shared[1] if shared else "Args"
    arguments = re.search(rf"^( *)struct {name} \{{\n(.*?)^\1\}};", text, re.MULTILINE | re.DOTALL)
    assert arguments is not None
    pointers = re.findall(
        rf"^{arguments[1]}  (const )?\S+\* (\w+)(?:\[\w+\])?(?: = nullptr)?;", arguments[2], re.MULTILINE
    )
    assert [(p.name, p.access == "read") for p in kernel.parameters] == [(name, bool(c)) for c, name in pointers]


@pytest.mark.parametrize(
    ("backend", "target"),
    [
        *(("cpu", "x86-64-v3"), ("cuda", "sm_75"), ("cuda", "sm_80"), ("hip", "gfx906"), ("hip", "gfx90a")),
        *(("hip", "gfx1030"), ("hip", "gfx1100"), ("hip", "gfx1200")),
    ],
)
def test_windows_attend_by_tiles_where_the_target_has_a_kernel_of_them(
    tmp_path: Path, backend: str, target: str
) -> None:
    """What the code asks for is what the specs say: of the two kernels one is built, or both are refused."""
    found = find_target(SPECS, backend, target)
    built = [each.name for each in DEVICE if each.name in BY_TILES and not each.refusal(found)]
    expected = "true" if built else "false"
    source = tmp_path / "source.cpp"
    source.write_text(
        '#include "strata/device/run_attend_tiles.hpp"\n'
        f"static_assert(strata::device::kAttendsByTiles == {expected});\n"
    )
    paths = (f"-I{each}" for each in (generated_sources(tmp_path, found) / "include", runtime_root() / "include"))
    command = [*compiler_words(), "-std=c++20", "-fsyntax-only", *paths, str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
