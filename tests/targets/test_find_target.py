"""`--target BACKEND NAME`: what it means, and what is said when it means nothing."""

from __future__ import annotations

import pytest

from strata_gen.errors import GeneratorError
from strata_gen.host import HostCpu, parse_cpuinfo
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import DotInstruction
from strata_gen.resolve import find_target

V2 = "cx16 lahf_lm popcnt pni ssse3 sse4_1 sse4_2"
V3 = V2 + " avx avx2 bmi1 bmi2 f16c fma abm movbe xsave"
V4 = V3 + " avx512f avx512bw avx512cd avx512dq avx512vl"
CASCADE_LAKE = V4 + " avx512_vnni"
VNNI = V4 + " avx512_vnni avx512_bf16 avx512vbmi"
AMX = VNNI + " amx_tile amx_int8 amx_bf16"


def host(flags: str, machine: str = "x86_64") -> HostCpu:
    return HostCpu(machine, "a CPU", frozenset(flags.split()))


def refused(specs: SpecSet, backend: str, name: str) -> GeneratorError:
    with pytest.raises(GeneratorError) as caught:
        find_target(specs, backend, name)
    return caught.value


@pytest.mark.parametrize(
    ("backend", "name", "found"),
    [
        ("cuda", "sm_86", "sm_86"),
        ("hip", "gfx1151", "gfx1151"),
        ("hip", "strix-halo", "gfx1151"),
        ("cpu", "avx2", "x86-64-v3"),
    ],
)
def test_a_target_is_found_by_name_and_alias(specs: SpecSet, backend: str, name: str, found: str) -> None:
    target = find_target(specs, backend, name)
    assert (target.backend, target.name) == (backend, found)


@pytest.mark.parametrize(
    ("backend", "name", "nearest"),
    [
        ("cuda", "sm86", "sm_86"),
        ("cuda", "sm_91", "sm_90"),
        ("hip", "gfx1036", "gfx1030"),
        ("cpu", "x86_64_v3", "x86-64-v3"),
    ],
)
def test_an_unknown_target_names_the_nearest_and_lists_all(
    specs: SpecSet, backend: str, name: str, nearest: str
) -> None:
    problem = refused(specs, backend, name)
    assert problem.what == f"unknown {backend} target '{name}': the nearest is {nearest}"
    assert problem.where == f"--target {backend} {name}"
    for target in specs.targets:
        assert (target.name in problem.mend.split(" are ")[1].split(", ")) is (target.backend == backend)


def test_nothing_near_is_not_made_up(specs: SpecSet) -> None:
    assert refused(specs, "cuda", "???").what == "unknown cuda target '???'"


def test_a_target_of_another_backend_is_recognised(specs: SpecSet) -> None:
    problem = refused(specs, "hip", "sm_86")
    assert (problem.what, problem.mend) == ("sm_86 is a cuda target, not a hip one", "--target cuda sm_86")


def test_an_unknown_backend_lists_those_that_exist(specs: SpecSet) -> None:
    assert refused(specs, "cudda", "sm_86").what == "unknown backend 'cudda': did you mean 'cuda'?"
    assert refused(specs, "rocm", "gfx1151").mend == "backends are cpu, cuda, hip"


@pytest.mark.parametrize(
    ("backend", "name", "plain"),
    [
        *(("cuda", "sm_90a", "sm_90"), ("cuda", "sm_120f", "sm_120"), ("cuda", "sm_100a", "sm_100")),
        *(("hip", "gfx90a:sramecc+", "gfx90a"), ("hip", "gfx942:sramecc+:xnack-", "gfx942")),
    ],
)
def test_an_architecture_suffix_is_refused_and_never_dropped(
    specs: SpecSet, backend: str, name: str, plain: str
) -> None:
    problem = refused(specs, backend, name)
    assert problem.what.startswith(f"'{name}' is refused: ")
    assert problem.mend == f"--target {backend} {plain}"


def test_the_a_of_gfx90a_is_no_suffix(specs: SpecSet) -> None:
    assert find_target(specs, "hip", "gfx90a").name == "gfx90a"


@pytest.mark.parametrize(
    ("flags", "level", "dot"),
    [
        *((V2, "x86-64-v2", "none"), (V3, "x86-64-v3", "none"), (V4, "x86-64-v4", "none")),
        *((CASCADE_LAKE, "x86-64-v4", "none"), (VNNI, "x86-64-v4-vnni", "vnni"), (AMX, "x86-64-v4-amx", "vnni")),
    ],
)
def test_native_is_exactly_the_best_level_of_the_host(specs: SpecSet, flags: str, level: str, dot: str) -> None:
    target = find_target(specs, "cpu", "native", host(flags))
    assert [found.name for found in target.levels] == [level]
    assert target.dot is DotInstruction(dot)
    assert target.architecture_flags == target.levels[0].flags
    assert target.package_suffix == "native"


def test_a_flag_missing_below_the_best_level_rules_the_level_out(specs: SpecSet) -> None:
    without_fma = host(V4.replace(" fma", ""))
    assert [level.name for level in find_target(specs, "cpu", "native", without_fma).levels] == ["x86-64-v2"]


def test_a_cpu_that_runs_no_level_is_told_what_it_lacks(specs: SpecSet) -> None:
    with pytest.raises(GeneratorError) as caught:
        find_target(specs, "cpu", "native", host(V2.replace(" sse4_2", "")))
    assert caught.value.what.endswith("x86-64-v2 also needs sse4_2")
    with pytest.raises(GeneratorError, match="aarch64"):
        find_target(specs, "cpu", "native", host("", "aarch64"))


def test_this_machine_has_a_native_target(specs: SpecSet) -> None:
    assert len(find_target(specs, "cpu", "native").levels) == 1


def test_a_cpu_flag_counts_when_every_core_has_it() -> None:
    text = "processor\t: 0\nmodel name\t: Big.Little 9\nflags\t\t: avx avx2 fma\n\nprocessor\t: 1\nflags\t\t: avx fma\n"
    found = parse_cpuinfo(text, "x86_64")
    assert (found.name, found.flags) == ("Big.Little 9", {"avx", "fma"})


@pytest.mark.parametrize("text", ["", "garbage without a colon\n", "flags\n"])
def test_an_unreadable_cpuinfo_means_no_flags(text: str) -> None:
    assert parse_cpuinfo(text, "x86_64").flags == frozenset()
