"""What the project declares: which targets there are, and the facts that code will rely on."""

from __future__ import annotations

import re
import subprocess

import pytest

from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend, CompilerFamily, Feature, Target
from strata_gen.resolve import make_plan

KIB = 1024

CUDA = ["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121"]
HIP_WAVE32 = [
    *("gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1103"),
    *("gfx1150", "gfx1151", "gfx1152", "gfx1200", "gfx1201"),
]
HIP_WAVE64 = ["gfx906", "gfx90a", "gfx942"]
CPU = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "x86-64-v4-vnni", "x86-64-v4-amx", "native"]

NUMBERS = (
    *("wave_size", "threads_per_block", "shared_bytes", "shared_optin_bytes"),
    *("registers_per_block", "registers_per_thread"),
)


def of(specs: SpecSet, backend: Backend) -> dict[str, Target]:
    return {target.name: target for target in specs.targets if target.backend is backend}


def named(specs: SpecSet, name: str) -> Target:
    return next(target for target in specs.targets if target.name == name)


def test_the_declared_targets_are_these(specs: SpecSet) -> None:
    assert of(specs, Backend.CUDA).keys() == set(CUDA)
    assert of(specs, Backend.HIP).keys() == {*HIP_WAVE32, *HIP_WAVE64}
    assert of(specs, Backend.CPU).keys() == set(CPU)


def test_every_number_names_its_source(specs: SpecSet) -> None:
    for target in specs.targets:
        facts = dict(target.facts)
        given = [key for key in NUMBERS if getattr(target, key) is not None] + ["matrix"] * bool(target.matrix)
        assert all(facts[key].title for key in given), target.name
        assert all(level.source.title and level.vector_source.title for level in target.levels)


def test_wave_sizes(specs: SpecSet) -> None:
    assert {named(specs, name).wave_size for name in (*CUDA, *HIP_WAVE32)} == {32}
    assert {named(specs, name).wave_size for name in HIP_WAVE64} == {64}
    assert {target.wave_size for target in of(specs, Backend.CPU).values()} == {None}


@pytest.mark.parametrize(
    ("name", "kib"),
    [
        *(("sm_75", 64), ("sm_80", 163), ("sm_86", 99), ("sm_87", 163), ("sm_89", 99), ("sm_90", 227)),
        *(("sm_100", 227), ("sm_103", 227), ("sm_110", 227), ("sm_120", 99), ("sm_121", 99), ("gfx1151", 64)),
    ],
)
def test_shared_memory_that_a_block_may_opt_in_to(specs: SpecSet, name: str, kib: int) -> None:
    assert named(specs, name).shared_optin_bytes == kib * KIB


def test_dot_instructions_follow_the_generation(specs: SpecSet) -> None:
    assert {target.dot for target in of(specs, Backend.CUDA).values()} == {"dp4a"}
    assert {named(specs, name).dot for name in HIP_WAVE64} == {"sdot4"}
    assert {named(specs, name).dot for name in HIP_WAVE32 if name != "gfx1030"} == {"sudot4"}
    assert named(specs, "gfx1030").dot == "sdot4"


def test_targets_whose_device_shares_the_hosts_memory(specs: SpecSet) -> None:
    unified = {target.name for target in specs.targets if target.has(Feature.UNIFIED_MEMORY)}
    assert unified == {"sm_87", "sm_110", "sm_121", "gfx1103", "gfx1150", "gfx1151", "gfx1152"}


def test_targets_that_make_a_kernel_ready_while_the_one_before_runs(specs: SpecSet) -> None:
    having = {target.name for target in specs.targets if target.has(Feature.DEPENDENT_LAUNCH)}
    assert having == {name for name in CUDA if int(name.removeprefix("sm_")) >= 90}


def test_a_package_for_a_gpu_has_every_level_of_the_cpu_beside_it(specs: SpecSet) -> None:
    levels = [level.name for level in named(specs, "x86-64-v2").levels]
    for target in (*of(specs, Backend.CUDA).values(), *of(specs, Backend.HIP).values()):
        assert [level.name for level in make_plan(specs, target, {}).levels] == levels


def test_no_amd_target_claims_stream_waits_in_graphs(specs: SpecSet) -> None:
    assert not any(target.has(Feature.STREAM_WAIT) for target in of(specs, Backend.HIP).values())


@pytest.mark.parametrize(
    ("release", "refused"), [("13.0.88", False), ("13.2.51", True), ("13.2.78", True), ("13.2.86", False)]
)
def test_nvcc_releases_that_miscompile_sm_120(specs: SpecSet, release: str, refused: bool) -> None:
    version = tuple(map(int, release.split(".")))
    nvcc = {name: named(specs, name).compilers[0] for name in ("sm_89", "sm_120")}
    assert nvcc["sm_120"].family is CompilerFamily.NVCC
    assert ("miscompile" in (nvcc["sm_120"].refusal(version) or "")) is refused
    assert nvcc["sm_89"].refusal(version) is None


def test_a_cuda_binary_runs_on_later_devices_of_its_major_version_only(specs: SpecSet) -> None:
    for target in of(specs, Backend.CUDA).values():
        number = int(target.name.removeprefix("sm_"))
        others = [int(name.removeprefix("sm_")) for name in target.runs_on[1:]]
        assert all(other > number and other // 10 == number // 10 for other in others), target.name
    for tegra in ("sm_87", "sm_110"):
        assert [name for name in CUDA if tegra in named(specs, name).runs_on] == [tegra]


def test_a_hip_binary_runs_on_its_own_architecture_only(specs: SpecSet) -> None:
    assert all(target.runs_on == (name,) for name, target in of(specs, Backend.HIP).items())


def test_cpu_libraries_hold_every_namespace_from_their_own_level_up(specs: SpecSet) -> None:
    isas = {name: [level.isa for level in named(specs, name).levels] for name in CPU if name != "native"}
    assert isas == {
        "x86-64-v2": ["generic", "avx2", "avx512", "avx512vnni"],
        "x86-64-v3": ["avx2", "avx512", "avx512vnni"],
        "x86-64-v4": ["avx512", "avx512vnni"],
        "x86-64-v4-vnni": ["avx512vnni"],
        "x86-64-v4-amx": ["avx512vnni"],
    }


def test_a_cpu_binary_runs_wherever_its_weakest_level_does(specs: SpecSet) -> None:
    targets = {name: target for name, target in of(specs, Backend.CPU).items() if not target.native}
    for target in targets.values():
        needed = set(target.levels[0].cpu_flags)
        able = {name for name, other in targets.items() if needed <= set(other.levels[0].cpu_flags)}
        assert set(target.runs_on) == able, target.name


_MACROS = {
    **{"__SSE3__": "pni", "__SSSE3__": "ssse3", "__SSE4_1__": "sse4_1", "__SSE4_2__": "sse4_2"},
    **{"__POPCNT__": "popcnt", "__LAHF_SAHF__": "lahf_lm", "__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16": "cx16"},
    **{"__AVX__": "avx", "__AVX2__": "avx2", "__BMI__": "bmi1", "__BMI2__": "bmi2", "__F16C__": "f16c"},
    **{"__FMA__": "fma", "__LZCNT__": "abm", "__MOVBE__": "movbe", "__XSAVE__": "xsave"},
    **{"__AVX512F__": "avx512f", "__AVX512BW__": "avx512bw", "__AVX512CD__": "avx512cd"},
    **{"__AVX512DQ__": "avx512dq", "__AVX512VL__": "avx512vl", "__AVX512VNNI__": "avx512_vnni"},
    **{"__AVX512BF16__": "avx512_bf16", "__AVX512VBMI__": "avx512vbmi"},
    **{"__AMX_TILE__": "amx_tile", "__AMX_INT8__": "amx_int8", "__AMX_BF16__": "amx_bf16"},
}
_EXTENSION = re.compile(r"#define (__(?:AVX|AMX|FMA|F16C|BMI|LZCNT|MOVBE|POPCNT|XSAVE|SSSE|SSE[34])\w*) 1$")


def test_compiler_flags_of_a_level_allow_exactly_what_the_cpu_is_asked_for(specs: SpecSet) -> None:
    levels = {level.name: level for target in of(specs, Backend.CPU).values() for level in target.levels}
    for level in levels.values():
        command = ["g++", *level.flags, "-dM", "-E", "-x", "c++", "/dev/null"]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        macros = {match[1] for line in text.splitlines() if (match := _EXTENSION.match(line))}
        assert macros <= _MACROS.keys(), level.name
        allowed = {flag for macro, flag in _MACROS.items() if f"#define {macro} 1" in text.splitlines()}
        assert allowed == set(level.cpu_flags), level.name
