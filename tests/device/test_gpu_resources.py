"""What kernels take of a GPU is read from what compilers say, and compared with a committed table."""

from __future__ import annotations

import pytest

from strata_gen.model.support import support_matrix
from strata_gen.model.target import Backend
from strata_gen.paths import specs_root
from strata_gen.resolve import make_plan
from strata_gen.specs import load_specs
from strata_gen.views import launches
from support.gpu_resources import FIELDS, Table, differences, read_figures, read_table, unknown

SPECS = load_specs((specs_root(),))
NAME = "_ZN6strata4simt5entryINS_6device8ToFloatsINS_7formats10Q4_kFormatEEEEEvNT_4ArgsE"
PTXAS = f"""\
ptxas info    : Compiling entry function '{NAME}' for 'sm_90'
ptxas info    : Function properties for {NAME}
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 40 registers, used 1 barriers, 1024 bytes smem, 600 bytes cmem[0]
"""
CLANG = f"""\
a.cu:1:0: remark: Function Name: {NAME} [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     SGPRs: 30 [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     VGPRs: 41 [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     AGPRs: 2 [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     ScratchSize [bytes/lane]: 16 [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     SGPRs Spill: 1 [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     VGPRs Spill: 2 [-Rpass-analysis=kernel-resource-usage]
a.cu:1:0: remark:     LDS Size [bytes/block]: 4096 [-Rpass-analysis=kernel-resource-usage]
"""


def test_figures_are_read_from_either_compiler() -> None:
    assert read_figures(Backend.CUDA, PTXAS) == {"ToFloats<Q4_k>": (40, 1024, 8, 16)}
    assert read_figures(Backend.HIP, CLANG) == {"ToFloats<Q4_k>": (30, 41, 2, 4096, 16, 3)}
    assert read_figures(Backend.HIP, "nothing") == {}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ((48, 1024, 16, 16), []),
        ((49, 1024, 0, 0), ["sm_90 K: registers 49, and 40 in the table"]),
        ((31, 1024, 0, 0), ["sm_90 K: registers 31, and 40 in the table"]),
        ((40, 1028, 0, 0), ["sm_90 K: shared 1028, and 1024 in the table"]),
        ((40, 1024, 0, 20), ["sm_90 K: spilled 20, and 0 in the table"]),
    ],
)
def test_figures_may_differ_by_their_tolerance(now: tuple[int, ...], said: list[str]) -> None:
    known: Table = {"K": {"sm_90": (40, 1024, 0, 0)}}
    assert differences(Backend.CUDA, known, {"K": {"sm_90": now}}, ["sm_90"]) == said


def test_kernels_that_come_and_go_are_named_and_targets_without_figures_too() -> None:
    figures = (1, 2, 3, 4)
    known: Table = {"Old": {"sm_90": figures}, "Both": {"sm_90": figures}}
    found: Table = {"New": {"sm_90": figures, "sm_75": figures}, "Both": {"sm_90": figures, "sm_75": figures}}
    archs = ["sm_90", "sm_75"]
    assert differences(Backend.CUDA, known, found, archs) == [
        "sm_90 New: is not in the table",
        "sm_90 Old: is in the table, and was not compiled",
    ]
    assert unknown(known, archs) == ["sm_75"]


@pytest.mark.parametrize("backend", [Backend.CUDA, Backend.HIP])
def test_the_table_has_every_kernel_of_every_target_that_it_knows(backend: Backend) -> None:
    """A kernel that needs what a target has not is left out there, and only there: those by tiles."""
    table = read_table(backend)
    declared = {target.name: target for target in SPECS.targets if target.backend is backend}
    archs = {arch for cells in table.values() for arch in cells}
    assert archs and archs <= declared.keys()
    for arch in archs:
        kernels = {kernel.partition("<")[0] for kernel, cells in table.items() if arch in cells}
        specs = {kernel.function for kernel in SPECS.kernels if kernel.launch and not kernel.refusal(declared[arch])}
        assert kernels == specs, arch
    assert all(len(figures) == len(FIELDS[backend]) for cells in table.values() for figures in cells.values())


def test_every_kernel_on_every_target_is_built_or_refused_with_a_reason() -> None:
    cells = support_matrix(SPECS)
    assert len(cells) == len(SPECS.kernels) * len(SPECS.targets)
    assert all(cell.refusal is None or len(cell.refusal) > 10 for cell in cells)
    on_hip = [cell for cell in cells if cell.target.backend is Backend.HIP and cell.kernel.launch is not None]
    refused = {
        cell.target.name: cell.kernel.name for cell in on_hip if cell.refusal and cell.kernel.name != "attend_tiles"
    }
    assert refused == {"gfx906": "attend_square_tiles", "gfx1030": "attend_square_tiles"}


def test_attention_by_square_tiles_goes_by_the_lanes_of_its_target_and_spills_nothing() -> None:
    table = read_table(Backend.HIP)
    lanes = {target.name: target.matrix_lanes.replace("_", "") for target in SPECS.targets}
    found = {kernel: cells for kernel, cells in table.items() if kernel.startswith("AttendSquareTiles<")}
    assert len(found) == 2 * 3 * 3  # types, sizes of heads, kinds of instructions
    for kernel, cells in found.items():
        for arch, each in cells.items():
            figures = dict(zip(FIELDS[Backend.HIP], each, strict=True))
            assert kernel.lower().endswith(f", {lanes[arch]}>")
            assert figures["scratch"] == figures["spilled"] == 0


def test_a_tree_for_hip_launches_what_the_matrix_says() -> None:
    for target in (target for target in SPECS.targets if target.backend is Backend.HIP):
        paths = [path for path, _ in launches.EMITTERS[1].views(make_plan(SPECS, target, {}))]
        assert len(paths) == len(SPECS.formats)
