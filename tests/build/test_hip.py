"""Packages for AMD GPUs: their compiler, and that neither ROCm nor a GPU is needed to build, import and launch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

import strata_gen.hip_compiler as hip_compiler
import strata_gen.resolve as resolve
from strata_gen.artifact import read_facts, sha256_file
from strata_gen.build import BuildRequest, BuildResult, build
from strata_gen.cli.main import group
from strata_gen.errors import GeneratorError
from strata_gen.failures import BuildFailure
from strata_gen.gpu_compiler import check_gpu_compiler
from strata_gen.hip_compiler import find_hip_compiler
from strata_gen.layout import layout_of
from strata_gen.paths import specs_root
from strata_gen.progress import Reporter
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from support.fake_hip import compile_fake_hip, with_hip, without_hip
from support.small_project import SmallProject, environment, make_hip_project

SPECS = load_specs((specs_root(),))
GFX1151 = find_target(SPECS, "hip", "gfx1151")
INSTALL = "apt-get install --no-install-recommends clang-19 lld-19"


@pytest.fixture(autouse=True)
def no_rocm_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip_compiler, "FOLDERS", ())


def fake_clang(path: Path, version: str = "19.1.7", lld: str | None = "19.1.7") -> Path:
    """A clang that tells its version and where its lld is, and no more."""
    path.parent.mkdir(parents=True, exist_ok=True)
    linker = path.with_name(f"lld-of-{path.name}")
    if lld is not None:
        linker.write_text(f'#!/bin/sh\necho "LLD {lld} (compatible with GNU linkers)"\n')
        linker.chmod(0o755)
    asked = f'case "$1" in -print-prog-name=lld) echo "{linker if lld else "lld"}";; '
    path.write_text(f'#!/bin/sh\n{asked}*) echo "Some clang version {version} (abc)"; echo "InstalledDir: $0";; esac\n')
    path.chmod(0o755)
    return path


# --- which compiler


def test_the_variable_is_stronger_than_a_rocm_and_that_than_the_path(tmp_path: Path) -> None:
    named = fake_clang(tmp_path / "a/my-clang")
    home = fake_clang(tmp_path / "b/llvm/bin/clang++", "20.0.0", "20.0.0")
    on_path = fake_clang(tmp_path / "c/clang++-19")
    environ = {"HIPCXX": str(named), "ROCM_PATH": str(tmp_path / "b"), "PATH": str(on_path.parent)}
    assert find_hip_compiler(environ, GFX1151).compiler == named
    assert find_hip_compiler({**environ, "HIPCXX": " "}, GFX1151).compiler == home
    assert find_hip_compiler({**environ, "HIPCXX": "", "ROCM_PATH": ""}, GFX1151).compiler == on_path


def test_an_installed_rocm_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hip_compiler, "FOLDERS", (tmp_path / "rocm",))
    rocm = fake_clang(tmp_path / "rocm/bin/amdclang++")
    fake_clang(tmp_path / "bin/clang++-19")
    assert find_hip_compiler({"PATH": str(tmp_path / "bin")}, GFX1151).compiler == rocm


def test_a_release_that_the_specs_refuse_is_passed_over(tmp_path: Path) -> None:
    fake_clang(tmp_path / "clang++-22", "22.1.0")
    fake_clang(tmp_path / "clang++", "17.0.6")
    newer = fake_clang(tmp_path / "clang++-20", "20.1.2", "20.1.2")
    assert find_hip_compiler({"PATH": str(tmp_path)}, GFX1151).compiler == newer


@pytest.mark.parametrize(
    ("version", "problem"),
    [("18.1.3", "18.1.3 is too old: 19 or newer is needed"), ("22.1.0", "22.1.0 must not be used: clang 22 failed")],
)
def test_where_none_fits_the_reason_and_what_to_install_are_said(tmp_path: Path, version: str, problem: str) -> None:
    fake_clang(tmp_path / "clang++", version)
    compiler = find_hip_compiler({"PATH": str(tmp_path)}, GFX1151)
    with pytest.raises(GeneratorError, match=f"hip gfx1151: clang {problem}") as caught:
        check_gpu_compiler(compiler, GFX1151)
    assert INSTALL in caught.value.mend


def test_no_compiler_is_one_line_that_says_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="no clang, .*HIPCXX, ROCM_PATH, HIP_PATH, PATH") as caught:
        find_hip_compiler({"PATH": str(tmp_path)}, GFX1151)
    assert INSTALL in caught.value.mend


@pytest.mark.parametrize(
    ("lld", "problem"),
    [(None, "clang 19.1.7 has no lld, its linker"), ("14.0.6", "of another release: LLD 14.0.6")],
)
def test_a_missing_linker_is_named_with_what_installs_it(tmp_path: Path, lld: str | None, problem: str) -> None:
    fake_clang(tmp_path / "clang++-19", lld=lld)
    with pytest.raises(GeneratorError, match=problem) as caught:
        find_hip_compiler({"PATH": str(tmp_path)}, GFX1151)
    assert "apt-get install --no-install-recommends lld-19" in caught.value.mend


def test_a_variable_that_leads_nowhere_or_to_a_wrapper_is_named(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError, match="HIPCXX names 'no-such-clang', which is not there"):
        find_hip_compiler({"HIPCXX": "no-such-clang"}, GFX1151)
    hipcc = fake_clang(tmp_path / "hipcc")
    with pytest.raises(GeneratorError, match="hipcc, which adds flags of its own"):
        find_hip_compiler({"HIPCXX": str(hipcc)}, GFX1151)


def test_the_identity_knows_the_releases_and_not_where_they_lie(tmp_path: Path) -> None:
    def identity(folder: str, version: str = "19.1.7") -> str:
        clang = fake_clang(tmp_path / folder / "clang++", version)
        return find_hip_compiler({"HIPCXX": str(clang)}, GFX1151).identity

    assert identity("a") == identity("b") != identity("c", "19.1.6")


def test_a_build_without_a_compiler_ends_with_a_user_error(tmp_path: Path) -> None:
    arguments = ["build", "--target", "hip", "gfx1151", "gfx942", "--out", str(tmp_path)]
    result = CliRunner().invoke(group, arguments, env={"HIPCXX": "no-such-clang"})
    assert result.exit_code == 2
    assert result.stderr.count("error: HIPCXX names 'no-such-clang', which is not there") == 2
    assert "Traceback" not in result.stderr


# --- packages


@pytest.fixture
def hip_project(tmp_path: Path) -> SmallProject:
    try:
        check_gpu_compiler(find_hip_compiler(environment(tmp_path), GFX1151), GFX1151)
    except GeneratorError as problem:
        pytest.skip(problem.what)
    return make_hip_project(tmp_path / "project")


def built(small: SmallProject, out: Path, reporter: Reporter, home: Path, arch: str = "gfx1151") -> BuildResult:
    tree = small.tree(backend="hip", arch=arch)
    request = BuildRequest(tree, layout_of(tree.plan, out), jobs=2, use_cache=False)
    return build(request, reporter, environment(home))


def launched(result: BuildResult, environ: dict[str, str]) -> str:
    script = f"from {result.package} import _native; print(_native.launch())"
    environ = {**environ, "PYTHONPATH": str(result.path.parent)}
    done = subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_package_is_imported_without_a_runtime_and_launches_through_the_one_that_is_there(
    hip_project: SmallProject, tmp_path: Path, reporter: Reporter
) -> None:
    result = built(hip_project, tmp_path / "one", reporter, tmp_path / "home")
    assert result.package == "strata_kernels_hip_gfx1151"
    own = {"runtime/src/gpu/twice.cu", "runtime/src/gpu/four_times.cu", "runtime/src/hip/launch.cpp"}
    assert own <= set(result.compiled) == set(result.sources)
    facts = read_facts(result.path)
    assert facts is not None
    assert (facts["backend"], facts["arch"], facts["runs_on"]) == ("hip", "gfx1151", ["gfx1151"])
    assert facts["gpu_compiler"].startswith("clang ")

    assert launched(result, without_hip(tmp_path / "none")).startswith("there is no HIP runtime that can be loaded")
    log = tmp_path / "log"
    environ = with_hip(compile_fake_hip(tmp_path / "fake"), FAKE_HIP_LOG=str(log))
    assert launched(result, environ) == "launched"
    assert log.read_text().splitlines() == [
        "load \x7fELF on 0",
        "find _ZN6strata5twiceEPi in \x7fELF",
        "launch _ZN6strata5twiceEPi 3x1x1 of 32x1x1, 0 bytes, stream (nil), argument (nil)",
    ]


def test_the_same_sources_give_the_same_bytes_in_any_folder_and_a_change_recompiles_one(
    hip_project: SmallProject, tmp_path: Path, reporter: Reporter
) -> None:
    homes = (tmp_path / "one", tmp_path / "another folder")
    results = [built(hip_project, home, reporter, tmp_path / "home", "gfx90a") for home in homes]
    first, second = (sha256_file(next(result.path.glob("_native*.so"))) for result in results)
    assert first == second

    (hip_project.root / "runtime/src/gpu/unused.cu").write_text("// Nothing.\n")
    source = hip_project.root / "runtime/src/gpu/four_times.cu"
    source.write_text(source.read_text().replace("*= 4", "*= 5"))
    again = built(hip_project, homes[0], reporter, tmp_path / "home", "gfx90a")
    assert {"runtime/src/gpu/four_times.cu", "runtime/src/gpu/unused.cu"} <= set(again.compiled)
    header = hip_project.root / "runtime/include/strata/hip/stubs.hpp"
    header.write_text(header.read_text() + "// Seen by every kernel.\n")
    recompiled = built(hip_project, homes[0], reporter, tmp_path / "home", "gfx90a").compiled
    assert set(recompiled) == {
        *("runtime/src/gpu/twice.cu", "runtime/src/gpu/four_times.cu", "runtime/src/hip/launch.cpp")
    }


def test_the_first_error_of_device_code_is_what_is_shown(
    hip_project: SmallProject, tmp_path: Path, reporter: Reporter
) -> None:
    source = hip_project.root / "runtime/src/gpu/four_times.cu"
    source.write_text(source.read_text().replace("*value *= 4", "*value *= four"))
    with pytest.raises(BuildFailure) as caught:
        built(hip_project, tmp_path / "one", reporter, tmp_path / "home")
    assert "runtime/src/gpu/four_times.cu:6:" in caught.value.line
    assert "error: use of undeclared identifier 'four'" in caught.value.line


def test_each_backend_has_its_own_sources_alone(tmp_path: Path) -> None:
    small = make_hip_project(tmp_path / "project")
    paths = {file.path for file in small.tree(backend="hip", arch="gfx1151").files}
    assert {"runtime/src/hip/launch.cpp", "runtime/src/gpu/twice.cu"} <= paths
    assert not [path for path in (file.path for file in small.tree().files) if "/src/hip/" in path or "/gpu/" in path]


@pytest.mark.skipif("HIPCXX" in os.environ, reason="HIPCXX is set")
def test_doctor_says_what_compiles_hip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_clang(tmp_path / "clang++-19")
    environ = {**environment(tmp_path), "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    result = CliRunner(env=environ).invoke(group, ["doctor", "--target", "hip", "gfx1151"])
    assert f"clang 19.1.7 ({tmp_path / 'clang++-19'})" in result.stdout


# --- which GPU


def with_nodes(root: Path, *versions: int) -> Path:
    for number, version in enumerate(versions):
        (root / str(number)).mkdir(parents=True)
        (root / str(number) / "properties").write_text(f"simd_count 8\ngfx_target_version {version}\n")
    return root


def test_native_is_the_target_of_the_gpus_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resolve, "TOPOLOGY", with_nodes(tmp_path / "nodes", 0, 90010, 90010))
    assert find_target(SPECS, "hip", "native").name == "gfx90a"


@pytest.mark.parametrize(
    ("versions", "problem"),
    [
        ((110501, 110000), "this machine's GPUs are of several architectures: gfx1100, gfx1151"),
        ((90000,), "there is no hip target for this machine's AMD GPU \\(gfx900, driver amdgpu\\)"),
        ((0,), "the driver of AMD GPUs lists none"),
        ((), "no driver of AMD GPUs: there is no "),
    ],
)
def test_native_without_one_target_to_choose_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, versions: tuple[int, ...], problem: str
) -> None:
    monkeypatch.setattr(resolve, "TOPOLOGY", with_nodes(tmp_path / "nodes", *versions))
    with pytest.raises(GeneratorError, match=problem):
        find_target(SPECS, "hip", "native")
