"""AMD GPUs are found in the lists of the kernel's driver, without a library: which there are, and which are visible."""

from __future__ import annotations

from pathlib import Path

import pytest

from strata_runtime.amd_gpus import visible_amd_gpus
from strata_runtime.gpus import Gpus

APU, RADEON, INSTINCT = 110501, 110000, 90010


@pytest.fixture
def topology(tmp_path: Path) -> Path:
    """A CPU, then one node of each of three GPUs; numbers of nodes are no text."""
    root = tmp_path / "nodes"
    for number, version in ((0, 0), (2, APU), (10, INSTINCT), (9, RADEON)):
        node = root / str(number)
        node.mkdir(parents=True)
        text = f"cpu_cores_count {0 if version else 16}\ngfx_target_version {version}\nunique_id {0xABC0 + number}\n"
        (node / "properties").write_text(text)
    return root


def seen(topology: Path, device: Path | None = None, **environ: str) -> Gpus:
    return visible_amd_gpus(environ, topology, device or topology)


def archs(topology: Path, **environ: str) -> list[str]:
    return [gpu.arch for gpu in seen(topology, **environ).visible]


def test_gpus_are_in_the_order_of_their_nodes_and_named_as_compilers_do(topology: Path) -> None:
    assert archs(topology) == ["gfx1151", "gfx1100", "gfx90a"]


@pytest.mark.parametrize(
    ("environ", "left"),
    [
        ({"HIP_VISIBLE_DEVICES": "1"}, ["gfx1100"]),
        ({"CUDA_VISIBLE_DEVICES": "2, 0"}, ["gfx90a", "gfx1151"]),
        ({"HIP_VISIBLE_DEVICES": "", "CUDA_VISIBLE_DEVICES": "1"}, ["gfx1100"]),
        ({"HIP_VISIBLE_DEVICES": "0", "CUDA_VISIBLE_DEVICES": "1"}, ["gfx1151"]),
        ({"ROCR_VISIBLE_DEVICES": "1,2"}, ["gfx1100", "gfx90a"]),
        ({"ROCR_VISIBLE_DEVICES": "1,2", "HIP_VISIBLE_DEVICES": "1"}, ["gfx90a"]),
        ({"ROCR_VISIBLE_DEVICES": f"GPU-{0xABC9:016x}"}, ["gfx1100"]),
        ({"HIP_VISIBLE_DEVICES": "0,7,1"}, ["gfx1151"]),
        ({"HIP_VISIBLE_DEVICES": "0,0"}, ["gfx1151"]),
        ({"HSA_OVERRIDE_GFX_VERSION": "10.3.0", "HIP_VISIBLE_DEVICES": "0"}, ["gfx1030"]),
    ],
)
def test_rocms_variables_hide_and_order_gpus(topology: Path, environ: dict[str, str], left: list[str]) -> None:
    assert archs(topology, **environ) == left


@pytest.mark.parametrize("environ", [{"HIP_VISIBLE_DEVICES": "-1"}, {"ROCR_VISIBLE_DEVICES": ""}])
def test_all_gpus_hidden_is_said(topology: Path, environ: dict[str, str]) -> None:
    found = seen(topology, **environ)
    assert (found.visible, "hides every AMD GPU" in found.problem) == ((), True)


def test_what_is_missing_is_said(topology: Path, tmp_path: Path) -> None:
    assert seen(tmp_path / "no").problem == "there is no driver of AMD GPUs (/sys/class/kfd/kfd)"
    device = tmp_path / "kfd"
    assert seen(topology, device).problem == f"you may not use {device}: join the groups render and video"
    for node in topology.iterdir():
        (node / "properties").write_text("gfx_target_version 0\n")
    assert seen(topology).problem == "the driver of AMD GPUs lists none"


def test_a_gpu_that_this_process_may_not_look_at_is_none(topology: Path) -> None:
    (topology / "2" / "properties").unlink()
    assert archs(topology) == ["gfx1100", "gfx90a"]
