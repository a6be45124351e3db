"""The pool and the operations as C++ programs: stressed, and watched by sanitizers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pytest

from strata_gen.paths import runtime_root, specs_root
from strata_gen.render import render_tree
from strata_gen.resolve import Plan, find_target, make_plan
from strata_gen.specs import load_specs
from support.blocks import names
from support.native_programs import Unit, compile_program, run_program

HERE = Path(__file__).parent
POOL = (Unit(HERE / "stress.cpp"), Unit(runtime_root() / "src" / "cpus.cpp"))


@pytest.mark.parametrize(("sanitizer", "batches"), [("", 40_000), ("address,undefined", 8_000), ("thread", 8_000)])
def test_the_pool_survives_sleepy_workers_and_odd_batches(sanitizer: str, batches: int) -> None:
    said = run_program(compile_program("stress", POOL, sanitizer=sanitizer), str(batches))
    lines = said.splitlines()
    assert len(lines) == 25
    assert all(" ok " in line for line in lines)
    # The scenarios prove something only when work really moved to other threads.
    helped = {line[:36].strip(): int(line.split()[-5]) for line in lines}
    assert helped["batches, 1 threads"] == 0
    assert all(helped[f"batches, sleepy workers, {threads} threads"] > 0 for threads in range(2, 9))


def make_small_plan(formats: Collection[str]) -> Plan:
    """This machine's CPU, with windows of at most two tokens: those compile soon under a sanitizer."""
    specs = load_specs((specs_root(),))
    specs = replace(specs, formats=tuple(spec for spec in specs.formats if spec.name in formats))
    return make_plan(specs, find_target(specs, "cpu", "native"), {"window.max_tokens": "2"})


def generate(plan: Plan, root: Path) -> Path:
    for file in render_tree(plan):
        path = root / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file.text, encoding="utf-8")
    return root


@pytest.mark.parametrize(
    ("sanitizer", "formats"),
    # Threads meet in the pool and in how a format's inputs are made, not in how its bits are read.
    [("address,undefined", names()), ("thread", ["f32", "q4_k", "q8_0"])],
)
def test_operations_are_clean_and_agree_with_one_token_on_one_thread(
    tmp_path: Path, sanitizer: str, formats: list[str]
) -> None:
    plan = make_small_plan(formats)
    generated = generate(plan, tmp_path)
    flags = {level.isa: level.flags for level in plan.target.levels}
    written = [path for path in (runtime_root() / "src").glob("*.cpp") if not path.name.startswith("bindings")]
    units = [
        Unit(HERE / "ops.cpp"),
        *map(Unit, sorted((*written, *(generated / "src" / "gen").glob("*.cpp")))),
        *(Unit(path, flags[path.parent.name]) for path in sorted((generated / "src" / "levels").glob("*/*.cpp"))),
    ]
    includes = (generated / "include", runtime_root() / "include")
    said = run_program(compile_program("ops", units, includes, sanitizer))
    assert said.splitlines() == [f"{isa} ok" for isa in flags]


ADDED = ["sse4.2 popcnt", "avx2 fma", "avx512f avx512bw", "avx512vnni"]  # what each level of levels.cpp needs more
ISAS = ["generic", "avx2", "avx512", "avx512vnni"]


@pytest.fixture(scope="module")
def levels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    generated = generate(make_small_plan(["f32"]), tmp_path_factory.mktemp("levels"))
    units = (Unit(HERE / "levels.cpp"), Unit(runtime_root() / "src" / "level_choice.cpp"))
    return compile_program("levels", units, (generated / "include", runtime_root() / "include"))


@pytest.mark.parametrize("has", range(len(ISAS) + 1))
def test_a_level_that_the_cpu_lacks_is_never_chosen_nor_run(levels: Path, has: int) -> None:
    """On made-up CPUs, with kernels that end the program when they are called."""
    said = run_program(levels, *" ".join(ADDED[:has]).split()).splitlines()
    best, *named = said
    if has == 0:
        assert best == "best: this CPU lacks sse4.2 popcnt, which the weakest kernels of this package (level 0) need"
    else:
        assert best == f"best: {ISAS[has - 1]}"
    for index, (isa, line) in enumerate(zip(ISAS, named, strict=True)):
        lacking = " ".join(ADDED[has : index + 1])
        assert line == (f"{isa}: this CPU lacks {lacking}, which the {isa} kernels need" if lacking else f"{isa}: runs")


@pytest.fixture(scope="module")
def cpus() -> Path:
    return compile_program("cpus", (Unit(HERE / "cpus.cpp"), Unit(runtime_root() / "src" / "cpus.cpp")))


def machine(root: Path, files: dict[str, str], siblings: dict[int, str]) -> Path:
    for cpu, text in siblings.items():
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = text
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n", encoding="utf-8")
    return root


HYPERTHREADS = {0: "0,4", 1: "1,5", 2: "2,6", 3: "3,7", 4: "0,4", 5: "1,5", 6: "2,6", 7: "3,7"}
MACHINES = {
    "hyper-threads share a core": ({}, HYPERTHREADS, range(8), "cores=0,1,2,3 cpus=8 quota=0 workers=4 spare=4"),
    "the affinity mask leaves two cores": ({}, HYPERTHREADS, (1, 5, 6), "cores=1,6 cpus=3 quota=0 workers=2 spare=1"),
    "no topology is readable": ({}, {}, (3, 5), "cores=3,5 cpus=2 quota=0 workers=2 spare=0"),
    "cgroup v2 quota of two and a half CPUs": (
        {"proc/self/cgroup": "0::/job", "sys/fs/cgroup/job/cpu.max": "250000 100000"},
        HYPERTHREADS,
        range(8),
        "cores=0,1,2,3 cpus=8 quota=2 workers=2 spare=0",
    ),
    "cgroup v2 quota of a parent": (
        {
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000",
            "sys/fs/cgroup/a/cpu.max": "300000 100000",
        },
        HYPERTHREADS,
        range(8),
        "cores=0,1,2,3 cpus=8 quota=3 workers=3 spare=0",
    ),
    "cgroup v2 inside a container": (
        {"proc/self/cgroup": "0::/", "sys/fs/cgroup/cpu.max": "50000 100000"},
        HYPERTHREADS,
        range(8),
        "cores=0,1,2,3 cpus=8 quota=1 workers=1 spare=0",
    ),
    "cgroup v1": (
        {
            "proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/job",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us": "100000",
        },
        HYPERTHREADS,
        range(8),
        "cores=0,1,2,3 cpus=8 quota=2 workers=2 spare=0",
    ),
    "cgroup v1 without a limit, and lines that make no sense": (
        {
            "proc/self/cgroup": "nonsense\n3:cpu:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "oops",
        },
        HYPERTHREADS,
        (0,),
        "cores=0 cpus=1 quota=0 workers=1 spare=0",
    ),
}


@pytest.mark.parametrize("name", MACHINES)
def test_workers_follow_cores_affinity_and_quota(cpus: Path, tmp_path: Path, name: str) -> None:
    files, siblings, allowed, expected = MACHINES[name]
    root = machine(tmp_path, dict(files), siblings)
    assert run_program(cpus, str(root), *map(str, allowed)).strip() == expected
