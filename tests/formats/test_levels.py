"""Levels: the strongest one that the CPU has is used, and none of them can leak into code that runs on weaker CPUs."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest

from strata_gen.model.format import Format
from strata_gen.model.specset import SpecSet
from strata_gen.paths import specs_root
from strata_gen.resolve import find_target, make_plan
from strata_gen.tree import make_tree
from strata_gen.views.kernels import EMITTERS
from strata_runtime.provider import Provider
from support.compiled import compiled_provider

ORDER = ["generic", "avx2", "avx512", "avx512vnni"]


@pytest.mark.native
def test_the_module_uses_the_strongest_level_that_runs_here(provider: Provider) -> None:
    isas = list(provider.native.ISAS)  # type: ignore[attr-defined]
    assert isas == ORDER[: len(isas)]
    assert isas[-1] == provider.native.ISA
    flags = set(Path("/proc/cpuinfo").read_text(encoding="utf-8").split())
    assert ("avx2" in isas) == ({"avx2", "fma", "f16c"} <= flags)
    assert ("avx512" in isas) == ({"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags)
    assert ("avx512vnni" in isas) == ({"avx512_vnni", "avx512vbmi"} <= flags)


@pytest.mark.native
@pytest.mark.parametrize("isa", ORDER)
def test_objects_of_a_level_share_no_function_with_others(tree: Path, isa: str) -> None:
    """The linker keeps one copy of a function that several objects define: it must not be one for a newer CPU."""
    objects = sorted(tree.parent.glob(f"cmake/**/strata_{isa}.dir/**/*.o"))
    assert objects
    listed = subprocess.run(["nm", "-C", "--defined-only", *objects], capture_output=True, text=True, check=True)
    rows = [line.split(maxsplit=2) for line in listed.stdout.splitlines() if len(line.split(maxsplit=2)) == 3]
    weak = [name for _, kind, name in rows if kind in "WVu"]
    assert weak  # templates were instantiated here
    assert [name for name in weak if f"simd::{isa}" not in name] == []


@pytest.mark.native
@pytest.mark.parametrize("isa", ORDER)
def test_loading_the_library_runs_no_code_of_a_level(tree: Path, isa: str) -> None:
    """Tables are constants: nothing is initialised by code that only a newer CPU has the instructions for."""
    objects = sorted(tree.parent.glob(f"cmake/**/strata_{isa}.dir/**/*.o"))
    assert objects
    listed = subprocess.run(["readelf", "-SW", *objects], capture_output=True, text=True, check=True).stdout
    assert ".text" in listed
    assert [name for name in (".init_array", ".ctors", ".preinit_array") if name in listed] == []


@pytest.mark.native
def test_a_native_package_has_one_level(provider: Provider) -> None:
    native: Any = compiled_provider().native
    assert list(native.kernel_names()) == list(native.ISAS) == [native.ISA]
    assert native.ISA == provider.native.ISA
    (names,) = native.kernel_names().values()
    assert all(name.endswith(f".{native.ISA}") for name in names)


def path_of(isa: str, spec: Format) -> str:
    return f"src/levels/{isa}/rows_dot_{spec.name}_{spec.activation}.cpp"


def instances(specs: SpecSet, target: str) -> set[str]:
    plan = make_plan(specs, find_target(specs, "cpu", target), {})
    return {path for emitter in EMITTERS for path, _ in emitter.views(plan) if "rows_dot" in path}


def test_every_format_is_built_for_every_level_unless_a_weaker_one_serves(specs: SpecSet) -> None:
    built = instances(specs, "x86-64-v2")
    pruned = {f"src/levels/avx512vnni/rows_dot_{name}_float.cpp" for name in ("bf16", "f16", "f32")}
    every = {path_of(isa, spec) for isa in ORDER for spec in specs.formats}
    assert built == every - pruned


def test_what_serves_elsewhere_is_built_where_it_stands_alone(specs: SpecSet) -> None:
    expected = {path_of("avx512vnni", spec) for spec in specs.formats}
    assert instances(specs, "x86-64-v4-vnni") == expected


def test_code_outside_the_levels_runs_on_any_cpu(specs: SpecSet) -> None:
    """It runs before the CPU was looked at, and must be able to say what is missing."""
    tree = make_tree(make_plan(specs, find_target(specs, "cpu", "x86-64-v4-vnni"), {}), (specs_root(),))
    lines = tree.text("sources.cmake").splitlines()
    (common,) = (line for line in lines if line.startswith("set(STRATA_COMMON_FLAGS"))
    assert "-m" not in common
    assert any("STRATA_FLAGS_avx512vnni" in line and "-mavx512vnni" in line for line in lines)


def test_a_target_refuses_a_kernel_with_a_reason_and_only_for_what_it_lacks(specs: SpecSet) -> None:
    refused_for_needs = set()
    for target in specs.targets:
        for kernel in specs.kernels:
            reason = kernel.refusal(target)
            assert reason is None or reason.strip()
            if target.backend not in kernel.backends:
                assert reason is not None
            elif kernel.needs is not None and kernel.needs.shape not in {str(shape) for shape in target.matrix}:
                assert kernel.needs.shape in str(reason)
                refused_for_needs.add((kernel.name, target.name))
            else:
                assert reason is None
    without_square = {("attend_square_tiles", name) for name in ("gfx906", "gfx1030")}
    assert refused_for_needs == {("attend_tiles", "sm_75"), *without_square}
