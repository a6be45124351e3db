"""Which GPUs there are, and which of several packages is the one for this machine."""

from __future__ import annotations

import json
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from strata_runtime import __version__
from strata_runtime.fit import Fit
from strata_runtime.gpus import Gpu, Gpus
from strata_runtime.native import ABI_VERSION
from strata_runtime.preference import Candidate, by_preference
from support.fake_cuda import compile_fake_cuda, with_driver

H200, A10 = Gpu("NVIDIA H200", "sm_90"), Gpu("NVIDIA A10", "sm_86")
NO_DRIVER = Gpus((), "there is no NVIDIA driver (libcuda.so.1)")


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_fake_cuda(tmp_path_factory.mktemp("driver"))


def seen(driver: Path, **settings: str) -> str:
    script = (
        "from strata_runtime.gpus import visible_gpus as ask; g = ask(); print(*g.visible, sep='; '); print(g.problem)"
    )
    environ = with_driver(driver, **settings)
    return subprocess.run(
        [sys.executable, "-c", script], env=environ, capture_output=True, text=True, check=True
    ).stdout


def test_every_gpu_is_named_with_its_architecture(driver: Path) -> None:
    assert seen(driver, FAKE_CUDA_ARCHS="90 86 120") == "Fake GPU 0, sm_90; Fake GPU 1, sm_86; Fake GPU 2, sm_120\n\n"


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"FAKE_CUDA_INIT": "100"}, "the NVIDIA driver sees no GPU"),
        ({}, "the NVIDIA driver sees no GPU"),
        ({"FAKE_CUDA_INIT": "803"}, "the NVIDIA driver does not start (error 803): look at nvidia-smi"),
    ],
)
def test_no_gpu_says_why(driver: Path, settings: dict[str, str], problem: str) -> None:
    assert seen(driver, **settings) == f"\n{problem}\n"


def package(root: Path, backend: str, arch: str, *runs_on: str, not_on: tuple[str, ...] = ()) -> Path:
    folder = root / f"strata_kernels_{backend}_{arch}"
    folder.mkdir(parents=True)
    facts = {
        "package": folder.name,
        "backend": backend,
        "arch": arch,
        "key": "0",
        "generator": __version__,
        "not_on": list(not_on),
        "cpu_flags": [],
        "python_abi": sysconfig.get_config_var("SOABI"),
        "abi_version": ABI_VERSION,
        "runs_on": [arch, *runs_on],
        "files": {},
    }
    (folder / "manifest.json").write_text(json.dumps(facts))
    return folder


def ranked(root: Path, gpus: Gpus) -> list[Candidate]:
    return by_preference(sorted(root.iterdir()), {"cuda": lambda: gpus})


def test_the_gpus_own_package_is_best_then_one_that_it_runs_then_the_cpus(tmp_path: Path) -> None:
    cpu = package(tmp_path, "cpu", "native")
    older, own = package(tmp_path, "cuda", "sm_80", "sm_86"), package(tmp_path, "cuda", "sm_86", "sm_89")
    newer = package(tmp_path, "cuda", "sm_90")
    found = ranked(tmp_path, Gpus((A10, H200)))
    assert [candidate.folder for candidate in found] == [own, older, cpu, newer]
    assert found[0].why == found[1].why == "this machine's GPU is NVIDIA A10, sm_86"
    assert found[2].why == "it is for CPUs, and none for a GPU fits this machine"
    assert found[3].misfit == (
        "it is for sm_90, and this machine's GPU is NVIDIA A10, sm_86: strata-gen build --target cuda sm_86"
    )


def test_without_a_driver_the_cpus_package_is_taken_and_the_others_say_why(tmp_path: Path) -> None:
    cpu, gpu = package(tmp_path, "cpu", "native"), package(tmp_path, "cuda", "sm_90")
    first, second = ranked(tmp_path, NO_DRIVER)
    assert (first.folder, second.folder) == (cpu, gpu)
    assert second.misfit == "it is for a GPU, and there is no NVIDIA driver (libcuda.so.1)"


def test_no_driver_is_asked_when_no_package_is_for_a_gpu(tmp_path: Path) -> None:
    package(tmp_path, "cpu", "x86-64-v3")
    package(tmp_path, "cpu", "native")

    def forbidden() -> Gpus:
        raise AssertionError

    found = by_preference(sorted(tmp_path.iterdir()), {"cuda": forbidden, "hip": forbidden})
    assert [candidate.why for candidate in found] == ["it is for CPUs, and there is none for a GPU"] * 2


def test_an_older_gpu_of_the_same_major_version_is_the_last_choice_unless_it_is_ruled_out(tmp_path: Path) -> None:
    package(tmp_path, "cuda", "sm_120", "sm_121")
    unknown = Gpus((Gpu("A later one", "sm_122"),))
    (found,) = ranked(tmp_path, unknown)
    assert (found.rank, found.misfit) == (Fit.MINOR, "")
    assert ranked(tmp_path, Gpus((Gpu("An earlier one", "sm_119"),)))[0].rank is Fit.NONE
    assert ranked(tmp_path, Gpus((Gpu("Another one", "sm_130"),)))[0].rank is Fit.NONE
    package(tmp_path / "orin", "cuda", "sm_86", "sm_89", not_on=("sm_87",))
    assert ranked(tmp_path / "orin", Gpus((Gpu("Orin", "sm_87"),)))[0].rank is Fit.NONE


def test_a_package_for_an_amd_gpu_is_chosen_where_that_is(tmp_path: Path) -> None:
    cpu, hip = package(tmp_path, "cpu", "native"), package(tmp_path, "hip", "gfx1151")
    cuda = package(tmp_path, "cuda", "sm_90")

    def among(gpus: Gpus) -> list[Candidate]:
        return by_preference(sorted(tmp_path.iterdir()), {"cuda": lambda: NO_DRIVER, "hip": lambda: gpus})

    assert [each.folder for each in among(Gpus((Gpu("AMD GPU", "gfx1151"),)))] == [hip, cpu, cuda]
    other = among(Gpus((Gpu("AMD GPU", "gfx1100"),)))
    assert other[0].folder == cpu
    assert {each.misfit for each in other if each.folder == hip} == {
        "it is for gfx1151, and this machine's GPU is AMD GPU, gfx1100: strata-gen build --target hip gfx1100"
    }
