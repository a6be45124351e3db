"""Packages for a GPU: their compiler, what is in them, and that no GPU is needed to build and import one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

import strata_gen.gpu_compiler as gpu_compiler
from strata_gen.artifact import read_facts, sha256_file
from strata_gen.build import BuildRequest, BuildResult, build
from strata_gen.cli.main import group
from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import check_gpu_compiler, find_gpu_compiler
from strata_gen.key import build_key
from strata_gen.layout import layout_of
from strata_gen.paths import specs_root
from strata_gen.progress import Reporter
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from strata_gen.toolchain import find_toolchain
from support.fake_nvcc import fake_nvcc, program
from support.small_project import SmallProject, environment, make_gpu_project

SPECS = load_specs((specs_root(),))


# --- which compiler


def test_the_variable_is_stronger_than_a_toolkit_and_that_than_the_path(tmp_path: Path) -> None:
    named, home = fake_nvcc(tmp_path / "a/my-nvcc"), fake_nvcc(tmp_path / "b/bin/nvcc", "13.1.0")
    on_path = fake_nvcc(tmp_path / "c/nvcc", "13.1.1")
    environ = {"CUDACXX": str(named), "CUDA_HOME": str(tmp_path / "b"), "PATH": str(on_path.parent)}
    assert find_gpu_compiler(environ).compiler == named
    assert find_gpu_compiler({**environ, "CUDACXX": " "}).compiler == home
    found = find_gpu_compiler({**environ, "CUDACXX": "", "CUDA_HOME": ""})
    assert (found.compiler, found.version) == (on_path, (13, 1, 1))


def test_no_compiler_is_one_line_that_says_where_it_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_compiler, "FOLDERS", (tmp_path / "cuda/bin",))
    with pytest.raises(GeneratorError, match=rf"no nvcc.*CUDACXX, CUDA_HOME, CUDA_PATH, PATH, {tmp_path}") as caught:
        find_gpu_compiler({"PATH": str(tmp_path)})
    assert "install the CUDA Toolkit" in caught.value.mend


def test_a_variable_that_leads_nowhere_is_named(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="CUDACXX names 'no-such-nvcc', which is not there"):
        find_gpu_compiler({"CUDACXX": "no-such-nvcc", "PATH": os.environ["PATH"]})


def test_a_build_without_a_compiler_ends_with_a_user_error(tmp_path: Path) -> None:
    arguments = ["build", "--target", "cuda", "sm_90", "sm_86", "--out", str(tmp_path)]
    result = CliRunner().invoke(group, arguments, env={"CUDACXX": "no-such-nvcc"})
    assert result.exit_code == 2
    assert result.stderr.count("error: CUDACXX names 'no-such-nvcc', which is not there") == 2
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arch", "version", "problem"),
    [
        ("sm_90", "12.9.86", "cuda sm_90: nvcc 12.9.86 is too old: 13.0 or newer is needed"),
        ("sm_120", "13.2.51", "cuda sm_120: nvcc 13.2.51 must not be used: .*miscompile"),
    ],
)
def test_releases_that_the_specs_refuse(tmp_path: Path, arch: str, version: str, problem: str) -> None:
    compiler = find_gpu_compiler({"CUDACXX": str(fake_nvcc(tmp_path / "nvcc", version))})
    with pytest.raises(GeneratorError, match=problem):
        check_gpu_compiler(compiler, find_target(SPECS, "cuda", arch))


def test_the_key_knows_the_compiler_and_not_where_it_lies(tmp_path: Path) -> None:
    own = find_toolchain(environment(tmp_path))

    def key(version: str, folder: str) -> str:
        found = find_gpu_compiler({"CUDACXX": str(fake_nvcc(tmp_path / folder / "nvcc", version))})
        return build_key((), replace(own, gpu=found))

    assert key("13.0.88", "a") == key("13.0.88", "b")
    assert len({build_key((), own), key("13.0.88", "a"), key("13.1.0", "a")}) == 3


# --- which GPU


def with_gpus(folder: Path, monkeypatch: pytest.MonkeyPatch, *lines: str, status: int = 0) -> None:
    program(folder / "nvidia-smi", "\n".join((*(f"echo '{line}'" for line in lines), f"exit {status}")))
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)


def test_native_is_the_target_of_the_gpus_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_gpus(tmp_path, monkeypatch, *["NVIDIA H200, 9.0, 580.159.03"] * 2)
    assert find_target(SPECS, "cuda", "native").name == "sm_90"


@pytest.mark.parametrize(
    ("lines", "status", "what", "mend"),
    [
        (("A, 9.0, 580", "B, 12.0, 580"), 0, "several architectures: sm_90, sm_120", "--target cuda sm_90 sm_120"),
        (("Tesla V100, 7.0, 580",), 0, "no cuda target for this machine's Tesla V100 (sm_70, driver 580)", ""),
        (("No devices were found",), 6, "nvidia-smi sees no GPU: No devices were found", "install NVIDIA's driver"),
        ((), 0, "nvidia-smi sees no GPU: it says nothing", "install NVIDIA's driver"),
        (("what",), 0, "nvidia-smi says what nobody understands: what", "install NVIDIA's driver"),
    ],
)
def test_native_without_one_target_to_choose_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: tuple[str, ...], status: int, what: str, mend: str
) -> None:
    with_gpus(tmp_path, monkeypatch, *lines, status=status)
    with pytest.raises(GeneratorError) as caught:
        find_target(SPECS, "cuda", "native")
    assert what in caught.value.what
    assert mend in caught.value.mend


def test_native_without_a_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(GeneratorError, match="no NVIDIA driver: there is no nvidia-smi on PATH"):
        find_target(SPECS, "cuda", "native")


# --- packages


@pytest.fixture
def gpu_project(tmp_path: Path) -> SmallProject:
    if shutil.which("nvcc") is None and not any((folder / "nvcc").exists() for folder in gpu_compiler.FOLDERS):
        pytest.skip("no nvcc")
    return make_gpu_project(tmp_path / "project")


def built(small: SmallProject, out: Path, reporter: Reporter, home: Path) -> BuildResult:
    tree = small.tree(backend="cuda", arch="sm_90")
    request = BuildRequest(tree, layout_of(tree.plan, out), jobs=2, use_cache=False)
    return build(request, reporter, environment(home))


def launched(result: BuildResult) -> subprocess.CompletedProcess[str]:
    script = f"from {result.package} import _native; print(_native.launch())"
    return subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "PYTHONPATH": str(result.path.parent), "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
    )


def test_a_package_is_made_where_no_gpu_is_and_has_the_hosts_kernels_too(
    gpu_project: SmallProject, tmp_path: Path, reporter: Reporter
) -> None:
    result = built(gpu_project, tmp_path / "one", reporter, tmp_path / "home")
    assert result.package == "strata_kernels_cuda_sm90"
    assert {"runtime/src/gpu/twice.cu", "src/levels/avx512vnni/vector_bytes.cpp"} <= set(result.compiled)
    no_driver_or_no_gpu = {"35", "100"}
    assert launched(result).stdout.strip() in no_driver_or_no_gpu
    facts = read_facts(result.path)
    assert facts is not None
    assert (facts["backend"], facts["arch"], facts["runs_on"]) == ("cuda", "sm_90", ["sm_90"])
    assert facts["gpu_compiler"].startswith("nvcc 13.")


def test_the_same_sources_give_the_same_bytes_in_any_folder(
    gpu_project: SmallProject, tmp_path: Path, reporter: Reporter
) -> None:
    homes = (tmp_path / "one", tmp_path / "another folder")
    results = [built(gpu_project, home, reporter, tmp_path / "home") for home in homes]
    first, second = (sha256_file(next(result.path.glob("_native*.so"))) for result in results)
    assert first == second


def test_a_tree_for_a_cpu_has_no_device_code(tmp_path: Path) -> None:
    small = make_gpu_project(tmp_path / "project")
    assert not [file.path for file in small.tree().files if file.path.endswith(".cu")]
    assert "gpu/twice.cu" in small.tree(backend="cuda", arch="sm_90").text("sources.cmake")
