"""`strata-gen doctor`: what is here, what is missing, what installs it."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import strata_gen.gpu_compiler as gpu_compiler
import strata_gen.hip_compiler as hip_compiler
import strata_gen.installed as installed
from strata_gen import __version__
from strata_gen.cli.main import group
from strata_gen.gpus import Gpu
from support.small_project import environment

Doctor = Callable[..., Result]


@pytest.fixture
def doctor(tmp_path: Path) -> Doctor:
    def run(*arguments: str, **extra: str) -> Result:
        environ = environment(tmp_path / "home", XDG_CACHE_HOME="", **extra)  # the runner adds to what is set
        return CliRunner(env=environ).invoke(group, ["doctor", *arguments])

    return run


def test_a_machine_that_can_build(doctor: Doctor) -> None:
    result = doctor("--target", "cpu", "native", "x86-64-v3", "--json")
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert [(row["name"], row["ok"]) for row in found["targets"]] == [("cpu native", True), ("cpu x86-64-v3", True)]
    rows = {row["name"]: row for row in found["machine"]}
    assert rows["c++"]["ok"] and rows["cmake"]["ok"] and rows["ninja"]["ok"]
    assert rows["numpy"]["found"] == metadata.version("numpy")


def test_a_missing_compiler_is_told_with_what_installs_it(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(gpu_compiler, "FOLDERS", ())
    result = doctor("--target", "cuda", "sm_90", CUDACXX="no-such-nvcc")
    assert result.exit_code == 2
    *_, target, mend = result.stdout.splitlines()
    assert target.startswith("--  cuda sm_90  CUDACXX names 'no-such-nvcc', which is not there")
    assert "install the CUDA Toolkit, 13.0 or newer" in mend
    assert doctor(CUDACXX="no-such-nvcc").exit_code == 0  # a CPU needs none


def test_a_gpu_needs_another_torch_than_a_cpu(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version
    monkeypatch.setattr(metadata, "version", lambda name: "2.13.0+cpu" if name == "torch" else real(name))

    def torch(*arguments: str) -> tuple[bool, str]:
        rows = json.loads(doctor(*arguments, "--json").stdout)["machine"]
        return next((row["ok"], row["mend"]) for row in rows if row["name"] == "torch")

    assert torch("--target", "cpu", "native") == (True, "")
    assert torch("--target", "cuda", "sm_90") == (False, "pip install --force-reinstall torch==2.13.0")


def test_a_package_that_is_not_installed(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    real = metadata.version

    def version(name: str) -> str:
        if name == "tokenizers":
            raise metadata.PackageNotFoundError(name)
        return real(name)

    monkeypatch.setattr(metadata, "version", version)
    assert "tokenizers  the Python package tokenizers is not installed" in doctor().stdout


def test_targets_that_cannot_be(doctor: Doctor) -> None:
    result = doctor("--target", "cuda", "sm_91")
    assert result.exit_code == 2
    assert "unknown cuda target 'sm_91': the nearest is sm_90" in result.stdout
    assert "unknown hip target 'gfx1152x'" in doctor("--target", "hip", "gfx1152x").stdout


def test_hip_needs_clang_lld_and_a_torch_for_rocm(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip_compiler, "FOLDERS", ())
    refused = doctor("--target", "hip", "gfx1151", HIPCXX="no-such-clang")
    assert refused.exit_code == 2
    assert "HIPCXX names 'no-such-clang', which is not there" in refused.stdout
    assert "apt-get install --no-install-recommends clang-19 lld-19" in refused.stdout
    real = metadata.version
    for version, problem in (("2.13.0", "torch 2.13.0 is not built for ROCm"), ("2.13.0+rocm7.0", "")):
        monkeypatch.setattr(metadata, "version", lambda name, is_=version: is_ if name == "torch" else real(name))
        rows = json.loads(doctor("--target", "hip", "gfx1151", "--json").stdout)["machine"]
        assert next(row["problem"] for row in rows if row["name"] == "torch") == problem


def test_each_package_that_the_runtime_sees_is_listed_with_its_reason(doctor: Doctor, tmp_path: Path) -> None:
    other = tmp_path / "none"
    other.mkdir()
    (row,) = json.loads(doctor("--json", STRATA_PROVIDER_PATH=str(other)).stdout)["packages"]
    assert (row["name"], row["ok"]) == ("none", False)
    assert "manifest.json: cannot be read" in row["problem"]


def test_the_install_line_is_that_of_the_gpu_here(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Gpu("NVIDIA H200", "sm_90", "580.0")
    monkeypatch.setattr(installed, "visible_gpus", lambda _: (gpu, gpu))
    rows = json.loads(doctor("--json").stdout)["packages"]
    (fits,) = [row["found"] for row in rows if row["name"] == "fits"]
    assert f"pip install strata-kernels-cuda-sm90=={__version__}, or strata-gen build --target cuda sm_90" in fits
