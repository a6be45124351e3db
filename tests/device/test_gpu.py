"""Bodies compile for GPUs: with nvcc for CUDA, with clang alone for HIP. Skipped where the compiler is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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
    """Every portable kernel; of those of a format `window_linear` for each, any other for one of them."""
    types = [spec.type_name for spec in SPECS.formats]
    found = []
    for kernel in PORTABLE:
        name = f"strata::device::{kernel.function}"
        if all(parameter.type is not ParameterType.BLOCKS for parameter in kernel.parameters):
            found.append(name)
        else:
            chosen = (
                types
                if kernel.name == "window_linear"
                else [next(spec.type_name for spec in SPECS.formats if spec.name == "q4_k")]
            )
            found += [f"{name}<strata::formats::{each}>" for each in chosen]
    return found


def tiles() -> list[str]:
    """Kernels of CUDA's matrix instructions."""
    return [
        f"strata::device::AttendTiles<strata::field::{kind}, {dim}>" for kind in ("F16", "Bf16") for dim in (64, 128)
    ]


def source(target: Target) -> str:
    headers = sorted({kernel.body for kernel in PORTABLE})
    formats = (f"strata/gen/formats/{spec.name}.hpp" for spec in SPECS.formats)
    includes = "\n".join(f'#include "{path}"' for path in (*headers, *formats, "strata/simt/gpu.hpp"))
    names = instances()
    if target.backend is Backend.CUDA:
        names += tiles()
        includes += '\n#include "strata/device/attend_tiles.hpp"\n#include "strata/simt/tile_cuda.hpp"'
    entries = (f"template STRATA_GPU_KERNEL void strata::simt::entry<{name}>({name}::Args);" for name in names)
    return includes + "\n" + "\n".join(entries) + "\n"


def compile_for(target: Target, command: list[str], folder: Path) -> str:
    generated = generated_sources(folder / "generated", target)
    file, out = folder / "kernels.cu", folder / "kernels.out"
    file.write_text(source(target), encoding="utf-8")
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
    assert len(compiled) == len(instances()) + len(tiles())
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}


@pytest.mark.parametrize("architecture", ["gfx1151", "gfx942"])
def test_every_body_compiles_as_hip_at_both_widths_of_waves(tmp_path: Path, architecture: str) -> None:
    clang = next(filter(None, map(shutil.which, ("clang++-19", "amdclang++"))), None)
    if clang is None:
        pytest.skip("no clang 19")
    flags = ["-std=c++20", "-O1", "-x", "hip", "-nogpuinc", "-nogpulib", "--cuda-device-only", "--no-gpu-bundle-output"]
    warnings = ["-Wall", "-Wextra", "-Werror", "-ffp-contract=off"]
    command = [clang, *flags, *warnings, f"--offload-arch={architecture}", "-c"]
    compile_for(find_target(SPECS, "hip", architecture), command, tmp_path)
