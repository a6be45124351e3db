"""What users of such software hit while building and installing, one test each, numbered as in the list of cases."""

from __future__ import annotations

import importlib.metadata
import io
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import strata_runtime.discovery as discovery
import strata_runtime.provider as provider
from strata_gen.artifact import damage
from strata_gen.build import BuildRequest, build
from strata_gen.cache import open_cache
from strata_gen.cli.main import group
from strata_gen.errors import GeneratorError
from strata_gen.failures import hint_for
from strata_gen.gpu_compiler import find_gpu_compiler
from strata_gen.jobs import GIB, default_jobs
from strata_gen.key import build_key
from strata_gen.paths import project_root, specs_root
from strata_gen.progress import EVERY_S, FIRST_S, Reporter
from strata_gen.resolve import find_target
from strata_gen.specs import load_specs
from strata_gen.toolchain import find_toolchain
from strata_gen.tools import clean_environment
from strata_gen.wheel.archive import wheel_bytes
from strata_gen.wheel.checks import MIB, check_import, check_module, check_size
from strata_gen.wheel.kernels import kernels_wheel, read_module
from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.fit import Fit
from strata_runtime.gpus import Gpu, Gpus
from strata_runtime.knobs.unknown import unknown_variables
from strata_runtime.manifest import misfit, read_manifest
from strata_runtime.preference import by_preference
from support.builders import SOURCES, Starter, finish, wait_for
from support.fake_nvcc import fake_nvcc
from support.knob_plans import import_settings, plan_for, render_knobs
from support.packages import FILES, make_package
from support.small_project import Builds, SmallProject, compiles, environment

SPECS = load_specs((specs_root(),))
OVERLAY = Path(__file__).with_name("overlay")


def copy_of(small: SmallProject, folder: Path) -> SmallProject:
    shutil.copytree(small.root, folder, ignore=shutil.ignore_patterns("build", "home"))
    return SmallProject(folder)


def key_of(small: SmallProject, home: Path, set_values: dict[str, str] | None = None, **extra: str) -> str:
    return build_key(small.tree(set_values).files, find_toolchain(environment(home, **extra)))


def nearest_fit(folder: Path, arch: str) -> tuple[Fit, str]:
    (found,) = by_preference([folder], {"cuda": lambda: Gpus((Gpu("A GPU", arch),))})
    return found.rank, found.misfit


@pytest.fixture
def start(small: SmallProject, tmp_path: Path) -> Starter:
    return Starter(small, tmp_path / "home", tmp_path / "bin")


def test_01_a_first_build_is_never_silent_for_minutes(said: io.StringIO) -> None:
    assert FIRST_S <= 2.0 and EVERY_S <= 10.0
    with Reporter(said, first_s=0.05, every_s=0.05).step(lambda: "[3/70] compiling with 2 jobs"):
        time.sleep(0.3)
    assert said.getvalue().startswith("[3/70] compiling with 2 jobs (0 s)\n")


def test_02_a_missing_header_no_memory_and_a_link_error_look_different() -> None:
    outputs = (
        "a.cpp:1:10: fatal error: gone.hpp: No such file or directory",
        "c++: fatal error: Killed signal terminated program cc1plus",
        "/usr/bin/ld: a.o: undefined reference to `f()'\ncollect2: error: ld returned 1 exit status",
    )
    hints = [hint_for(output.splitlines()) for output in outputs]
    assert len(set(hints)) == 3
    assert "--jobs 1" in hints[1] and "link" in hints[2]


def test_03_a_package_that_is_installed_needs_no_compiler(tmp_path: Path) -> None:
    script = "import os; from strata_runtime.provider import find_provider; print(find_provider(os.environ).native.ISA)"
    named = {"STRATA_PROVIDER_PATH": str(make_package(tmp_path)), "PATH": "", "CXX": "none", "CUDACXX": "none"}
    environ = {**environment(tmp_path), **named}
    assert (
        subprocess.run([sys.executable, "-c", script], env=environ, capture_output=True, text=True).stdout
        == "pretended\n"
    )


def test_04_an_empty_cuda_home_is_none_and_a_symlinked_toolkit_the_same_one(tmp_path: Path) -> None:
    toolkit = fake_nvcc(tmp_path / "cuda-13.0/bin/nvcc").parents[1]
    (tmp_path / "cuda").symlink_to(toolkit)
    on_path = find_gpu_compiler({"CUDA_HOME": "", "PATH": str(toolkit / "bin")})
    linked = find_gpu_compiler({"CUDA_HOME": str(tmp_path / "cuda"), "PATH": ""})
    assert on_path.compiler == toolkit / "bin/nvcc"
    assert linked.identity == on_path.identity


def test_05_an_edit_with_an_old_mtime_is_compiled_and_a_touch_is_not(
    small: SmallProject, tmp_path: Path, said: io.StringIO
) -> None:
    mine = copy_of(small, tmp_path / "mine")
    run_build = Builds(mine, tmp_path / "home", Reporter(said))
    run_build()
    os.utime(mine.source)
    assert run_build().how == "current"
    mine.source.write_text(mine.source.read_text() + "\n// edited\n")
    os.utime(mine.source, (1, 1))
    assert run_build().compiled == ("runtime/src/answer.cpp",)


def test_06_what_cuda_13_built_is_not_what_cuda_12_is_asked_for(tmp_path: Path) -> None:
    own = find_toolchain(environment(tmp_path))
    versions = ("13.0.88", "12.9.86")
    found = [find_gpu_compiler({"CUDACXX": str(fake_nvcc(tmp_path / version, version))}) for version in versions]
    first, second = (build_key((), replace(own, gpu=compiler)) for compiler in found)
    assert first != second


def test_07_eight_builders_of_one_key_on_a_cold_cache_compile_once(start: Starter, tmp_path: Path) -> None:
    processes = [start(tmp_path / f"out{number}", before="sleep 0.3") for number in range(8)]
    results = [finish(process) for process in processes]
    assert [code for code, _, _ in results] == [0] * 8, results
    assert compiles(start.compiler) == SOURCES
    packages = list(tmp_path.glob("out*/cpu/*/package/*"))
    assert len(packages) == 8 and {damage(package) for package in packages} == {None}


def test_08_a_killed_builder_blocks_nobody(start: Starter, tmp_path: Path) -> None:
    victim = start(tmp_path / "out", before="sleep 30")
    wait_for(lambda: compiles(start.compiler) > 0)
    victim.kill()
    victim.communicate()
    code, out, err = finish(start(tmp_path / "out"))
    assert code == 0, err
    assert '"how": "built"' in out


def test_09_a_truncated_artifact_is_noticed_moved_aside_and_rebuilt_once(
    small: SmallProject, tmp_path: Path, said: io.StringIO
) -> None:
    run_build = Builds(copy_of(small, tmp_path / "mine"), tmp_path / "home", Reporter(said))
    run_build()
    stored = next((tmp_path / "home/.cache/strata-gen/artifacts").rglob("_native*"))
    os.truncate(stored, 100)
    assert run_build(out=tmp_path / "out2").how == "built"
    assert said.getvalue().count("is damaged") == 1
    assert run_build(out=tmp_path / "out3").how == "cached"
    loaded = make_package(tmp_path)
    os.truncate(loaded / "_native.py", 5)
    with pytest.raises(UserError, match="the kernels package is damaged; build it again: strata-gen build"):
        provider.find_provider({provider.PATH_VARIABLE: str(loaded)})


def test_10_moving_home_or_the_checkout_invalidates_nothing(small: SmallProject, tmp_path: Path) -> None:
    moved = copy_of(small, tmp_path / "a folder with spaces" / "moved")
    assert key_of(moved, tmp_path / "another home") == key_of(small, tmp_path / "home")


def test_11_every_switch_that_changes_code_is_in_the_key_or_out_of_reach(small: SmallProject, tmp_path: Path) -> None:
    changed = ({"CXXFLAGS": "-O1"}, {"LDFLAGS": "-Wl,-z,now"}, {"CXX": "c++ -g"})
    keys = [key_of(small, tmp_path, **extra) for extra in changed]
    keys += [key_of(small, tmp_path), key_of(small, tmp_path, {"window.max_tokens": "16"})]
    assert len(set(keys)) == 5
    hidden = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "NVCC_APPEND_FLAGS", "CMAKE_BUILD_TYPE", "CUDAFLAGS")
    assert not clean_environment(dict.fromkeys(hidden, "x")).keys() & set(hidden)


def test_12_how_many_compilers_run_is_not_in_the_key(small: SmallProject, package: Path, said: io.StringIO) -> None:
    for jobs in (1, 7):
        request = BuildRequest(small.tree(), small.layout(), jobs=jobs)
        result = build(request, Reporter(said), environment(small.root / "home", MAKEFLAGS=f"-j{jobs}"))
        assert (result.how, result.path) == ("current", package)


def test_13_a_misspelt_variable_is_named_with_the_right_one(tmp_path: Path) -> None:
    knobs = import_settings(render_knobs(plan_for(SPECS)), tmp_path).KNOBS
    assert unknown_variables(knobs, {"STRATA_POOL_THREDS": "4", "STRATA_POOL_THREADS": "4"}) == [
        "STRATA_POOL_THREDS: there is no such variable; did you mean 'STRATA_POOL_THREADS'?"
    ]


def test_14_one_old_architecture_in_a_list_stops_no_other(tmp_path: Path) -> None:
    words = ["emit", "--target", "cuda", "sm_68", "sm_86", "--out", str(tmp_path)]
    result = CliRunner().invoke(group, words)
    assert result.exit_code == 2
    assert "unknown cuda target 'sm_68': the nearest is sm_" in result.stderr
    assert (tmp_path / "cuda/sm_86/tree/manifest.json").is_file()


def test_15_an_architecture_suffix_is_refused_or_kept_and_never_lost() -> None:
    with pytest.raises(GeneratorError, match="'sm_90a' is refused: its code would run on that variant only"):
        find_target(SPECS, "cuda", "sm_90a")
    kept = find_target(load_specs((specs_root(), OVERLAY)), "cuda", "sm_120f")
    assert kept.architecture_flags == ("--generate-code=arch=compute_120f,code=sm_120f",)
    assert kept.package_suffix == "sm120f"


def test_16_a_package_for_another_architecture_is_refused_at_load(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: SimpleNamespace
) -> None:
    monkeypatch.setattr(provider, "visible_gpus", lambda: Gpus((Gpu("NVIDIA A10", "sm_86"),)))
    explosive = {**FILES, "_native.py": "raise AssertionError"}
    make_package(alone.built / "cuda/sm_90/package", "cuda", "sm_90", explosive)
    with pytest.raises(UserError, match="it is for sm_90, and this machine's GPU is NVIDIA A10, sm_86"):
        provider.find_provider({})


def test_17_an_unknown_gfx_is_an_error_at_once_that_names_the_nearest() -> None:
    with pytest.raises(GeneratorError, match="unknown hip target 'gfx1153': the nearest is gfx115") as caught:
        find_target(SPECS, "hip", "gfx1153")
    assert "gfx1151" in caught.value.mend


def test_18_no_kernel_image_becomes_device_package_and_command(tmp_path: Path) -> None:
    fit, why = nearest_fit(make_package(tmp_path, "cuda", "sm_120"), "sm_86")
    assert fit is Fit.NONE
    assert ["sm_120" in why, "sm_86" in why, "strata-gen build --target cuda sm_86" in why] == [True] * 3
    # What passes that check is asked again by the module, of the driver itself.
    (query,) = (path for path in (project_root() / "runtime/src").rglob("query.cu"))
    refusal = query.read_text(encoding="utf-8").partition("cudaErrorNoKernelImageForDevice")[2]
    assert re.search(r"this package has code for .*strata-gen build --target cuda", refusal, re.DOTALL)


def test_19_nothing_of_torch_is_linked_so_that_an_upgrade_breaks_nothing(small: SmallProject, package: Path) -> None:
    module, plan = read_module(package), small.tree().plan
    check_module(module, plan)
    with pytest.raises(GeneratorError, match="has symbols of torch"):
        check_module(replace(module, imported=module.imported | {"_ZN2at5emptyEv"}), plan)


def test_20_a_package_for_cpus_is_not_taken_silently(
    monkeypatch: pytest.MonkeyPatch, alone: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(provider, "visible_gpus", lambda: Gpus((Gpu("NVIDIA H200", "sm_90"),)))
    make_package(alone.built / "cuda/sm_90/package", "cuda", "sm_90", abi_version=1)
    cpu = make_package(alone.built / "cpu/x/package")
    found = provider.find_provider({})
    assert (found.folder, found.why) == (cpu, "it is for CPUs, and none for a GPU fits this machine")
    (record,) = caplog.records
    assert re.search("passed over .*strata_kernels_cuda_sm90.* it has ABI version 1", record.getMessage())


def test_21_two_distributions_that_own_one_import_name_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, alone: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    folder = make_package(tmp_path / "site")
    monkeypatch.syspath_prepend(str(folder.parent))
    for name in ("strata-kernels-cpu-x", "strata-kernels-fork"):
        point = importlib.metadata.EntryPoint(name, folder.name, discovery.ENTRY_POINTS)
        vars(point)["dist"] = SimpleNamespace(name=name, version="1.0")
        alone.points.append(point)
    assert provider.find_provider({}).folder == folder
    (record,) = caplog.records
    assert (
        "belongs to 2 installed distributions, strata-kernels-cpu-x 1.0 and strata-kernels-fork 1.0"
        in record.getMessage()
    )


@pytest.mark.parametrize("near", ["{}0", "{}.1", "{}rc1", "v{}"])
def test_22_versions_are_compared_whole_and_not_by_their_beginning(tmp_path: Path, near: str) -> None:
    other = near.format(__version__)
    why = misfit(read_manifest(make_package(tmp_path, generator=other)))
    assert why is not None and f"it is of version {other}, this runtime is" in why


def test_23_a_wheel_over_the_limit_is_not_written_and_says_what_is_large(small: SmallProject, package: Path) -> None:
    wheel = kernels_wheel(small.tree().plan, package, read_module(package))
    check_size(wheel, bytes(MIB), 1)
    with pytest.raises(GeneratorError, match=r"has 2\.0 MiB, the limit is 1 MiB") as caught:
        check_size(wheel, bytes(2 * MIB), 1)
    assert "_native" in caught.value.where and "--max-mib" in caught.value.mend


def test_24_jobs_are_as_many_as_memory_allows(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemAvailable: {GIB // 1024} kB\n")
    assert default_jobs(tmp_path) == 1


def test_25_no_home_a_weaker_cpu_and_no_driver_stop_nothing(
    small: SmallProject, package: Path, tmp_path: Path, said: io.StringIO, alone: SimpleNamespace
) -> None:
    assert open_cache({"HOME": "/dev/null"}, Reporter(said)) is None
    data = wheel_bytes(kernels_wheel(small.tree().plan, package, read_module(package)), {})
    check_import(data, small.tree().plan, tmp_path / "log", Reporter(said))
    explosive = {**FILES, "_native.py": "raise AssertionError('an illegal instruction')"}
    make_package(alone.built / "cpu/amx/package", arch="amx", files=explosive, cpu_flags=["no_such_flag"])
    weaker = make_package(alone.built / "cpu/x/package")
    assert provider.find_provider({}).folder == weaker


def test_every_case_has_one_test() -> None:
    tests: list[Callable[..., None]] = [each for name, each in globals().items() if re.match(r"test_\d\d_", name)]
    assert [each.__name__[5:7] for each in tests] == [f"{number:02}" for number in range(1, 26)]
