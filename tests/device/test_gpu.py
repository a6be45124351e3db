"""Bodies compile for GPUs: with nvcc for CUDA, with clang alone for HIP. Skipped where the compiler is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from strata_gen.model.kernel import ParameterType
from strata_gen.model.target import Backend, Target
from strata_gen.paths import runtime_root, specs_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from support.device import generated_sources

SPECS = load_specs((specs_root(),))
PORTABLE = [kernel for kernel in SPECS.kernels if kernel.launch is not None and Backend.CPU in kernel.backends]


def instances() -> list[str]:
    """Every portable kernel, those of a format for one of them: `make gpu` compiles all, for every target."""
    (format_type,) = (spec.type_name for spec in SPECS.formats if spec.name == "q4_k")
    found = []
    for kernel in PORTABLE:
        is_of_format = any(parameter.type is ParameterType.BLOCKS for parameter in kernel.parameters)
        found.append(
            f"strata::device::{kernel.function}" + (f"<strata::formats::{format_type}>" if is_of_format else "")
        )
    return found


TILES = "strata::device::AttendTiles<strata::field::Bf16, 128>"
"""Attention by CUDA's matrix instructions."""


def square_tiles(lanes: str) -> str:
    """Attention by AMD's matrix instructions, for heads of 32."""
    includes = ("strata/device/attend_square_tiles.hpp", "strata/simt/gpu.hpp", "strata/simt/tile_gpu.hpp")
    types = (f"strata::device::AttendSquareTiles<strata::field::{kind}, 32, {lanes}>" for kind in ("F16", "Bf16"))
    return instantiated(includes, types)


def instantiated(headers: Iterable[str], kernels: Iterable[str]) -> str:
    lines = [f'#include "{path}"' for path in headers]
    lines += [f"template STRATA_GPU_KERNEL void strata::simt::entry<{name}>({name}::Args);" for name in kernels]
    return "\n".join(lines) + "\n"


def source(target: Target) -> str:
    formats = (f"strata/gen/formats/{spec.name}.hpp" for spec in SPECS.formats)
    headers = [*sorted({kernel.body for kernel in PORTABLE}), *formats, "strata/simt/gpu.hpp"]
    if target.backend is not Backend.CUDA:
        return instantiated(headers, instances())
    headers += ["strata/device/attend_tiles.hpp", "strata/simt/tile_gpu.hpp"]
    return instantiated(headers, [*instances(), TILES])


def compile_for(target: Target, command: list[str], folder: Path, text: str = "") -> str:
    """Compile `text`, by default all kernels, to `kernels.out`; return what the compiler said."""
    generated = generated_sources(folder / "generated", target)
    file, out = folder / "kernels.cu", folder / "kernels.out"
    file.write_text(text or source(target), encoding="utf-8")
    paths = [f"-I{path}" for path in (generated / "include", runtime_root() / "include")]
    done = subprocess.run([*command, *paths, str(file), "-o", str(out)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert out.stat().st_size > 0
    return done.stderr


def test_every_body_compiles_with_nvcc_and_spills_nothing(tmp_path: Path) -> None:
    nvcc = shutil.which("nvcc") or shutil.which("nvcc", path=os.environ.get("CUDA_HOME", "/usr/local/cuda") + "/bin")
    if nvcc is None:
        pytest.skip("no nvcc")
    target = find_target(SPECS, "cuda", "sm_86")
    flags = [
        "-std=c++20",
        "-cubin",
        "--expt-relaxed-constexpr",
        "--fmad=false",
        "-Xptxas",
        "-v",
        "-Werror",
        "all-warnings",
    ]
    said = compile_for(target, [nvcc, "-arch=sm_86", *flags], tmp_path)
    compiled = re.findall(r"Compiling entry function", said)
    assert len(compiled) == len(instances()) + 1
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}


def clang(architecture: str, *flags: str) -> list[str]:
    """Clang 19 for the device code of an AMD GPU. Skips the test without one."""
    found = next(filter(None, map(shutil.which, ("clang++-19", "amdclang++"))), None)
    if found is None:
        pytest.skip("no clang 19")
    alone = ["-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "--no-gpu-bundle-output"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    return [found, "-std=c++20", *alone, *warnings, f"--offload-arch={architecture}", *flags]


@pytest.mark.parametrize("architecture", ["gfx1151", "gfx942"])
def test_every_body_compiles_as_hip_at_both_widths_of_waves(tmp_path: Path, architecture: str) -> None:
    compile_for(find_target(SPECS, "hip", architecture), clang(architecture, "-O1", "-c"), tmp_path)


@pytest.mark.parametrize(
    ("architecture", "lanes", "instructions", "waves"),
    [
        ("gfx1151", "Wmma", ("v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16"), 8),
        ("gfx1201", "WmmaGfx12", ("v_wmma_f32_16x16x16_f16", "v_wmma_f32_16x16x16_bf16"), 8),
        ("gfx90a", "Mfma", ("v_mfma_f32_16x16x16f16", "v_mfma_f32_16x16x16bf16_1k"), 4),
        ("gfx942", "Mfma", ("v_mfma_f32_16x16x16_f16", "v_mfma_f32_16x16x16_bf16"), 4),
    ],
)
def test_attention_by_square_tiles_is_made_of_matrix_instructions(
    tmp_path: Path, architecture: str, lanes: str, instructions: tuple[str, str], waves: int
) -> None:
    """A stage's 64 positions and 64 rows, keys and values, in products of 16 for heads of 32: of one wave."""
    command = clang(architecture, "-O3", "-S")
    compile_for(find_target(SPECS, "hip", architecture), command, tmp_path, square_tiles(f"strata::simt::{lanes}"))
    assembly = (tmp_path / "kernels.out").read_text()
    for instruction in instructions:
        assert len(re.findall(rf"\b{instruction}\b", assembly)) == (64 // 16) * (64 // 16) * 2 * (32 // 16) // waves
