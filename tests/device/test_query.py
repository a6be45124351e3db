"""What a package for a GPU says where it cannot run: one line each, on a driver that the test makes up."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import find_gpu_compiler
from strata_gen.paths import runtime_root, specs_root
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from support.device import generated_sources
from support.fake_cuda import compile_fake_cuda, with_driver

MAIN = """\
#include <cstdio>
#include <exception>

#include "strata/device/query.hpp"

int main() {
  try {
    strata::device::query(0);
  } catch (const std::exception& problem) {
    std::puts(problem.what());
  }
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Asks for GPU 0 and prints what is wrong."""
    try:
        nvcc = find_gpu_compiler(os.environ).compiler
    except GeneratorError as problem:
        pytest.skip(problem.what)
    folder = tmp_path_factory.mktemp("query")
    generated = generated_sources(folder / "generated", find_target(load_specs((specs_root(),)), "cuda", "sm_90"))
    (folder / "main.cpp").write_text(MAIN)
    paths = [f"-I{path}" for path in (generated / "include", runtime_root() / "include")]
    sources = [folder / "main.cpp", runtime_root() / "src/cuda/query.cu"]
    flags = ["-std=c++20", "-O0", "-arch=sm_90", "--expt-relaxed-constexpr"]
    subprocess.run([nvcc, *flags, *paths, *sources, "-o", folder / "query"], check=True)
    return folder / "query"


def said(program: Path, environ: dict[str, str]) -> str:
    return subprocess.run([program], env=environ, capture_output=True, text=True, check=True).stdout


def test_no_driver(program: Path, tmp_path: Path) -> None:
    (tmp_path / "libcuda.so.1").write_text("not a library")  # so that this machine's own is not found
    line = "there is no NVIDIA driver (libcuda.so.1): install driver 580 or newer (https://www.nvidia.com/drivers)\n"
    assert said(program, with_driver(tmp_path)) == line


def test_an_old_driver(program: Path, tmp_path: Path) -> None:
    environ = with_driver(compile_fake_cuda(tmp_path), FAKE_CUDA_VERSION="12040")
    assert said(program, environ) == (
        "the NVIDIA driver is too old: it knows CUDA 12.4, this package needs 13.0: "
        "install driver 580 or newer (https://www.nvidia.com/drivers)\n"
    )
