"""The AMD GPUs of this machine, as the kernel's driver lists them: no library, and no package, is needed for that."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from strata_runtime.gpus import Gpu, Gpus

TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
DEVICE = Path("/dev/kfd")
_NAME = "AMD GPU"
_OVERRIDE = "HSA_OVERRIDE_GFX_VERSION"


def _properties(node: Path) -> dict[str, int]:
    """Read a node; nothing of one that this process may not look at."""
    try:
        text = (node / "properties").read_text()
    except OSError:
        return {}
    return {name: int(value) for name, value in re.findall(r"^(\w+) (\d+)$", text, re.MULTILINE)}


def _arch(major: int, minor: int, step: int) -> str:
    return f"gfx{major}{minor:x}{step:x}"


def _arch_of(properties: Mapping[str, int], environ: Mapping[str, str]) -> str:
    """Name the architecture: 110501 is gfx1151, 90010 gfx90a. One that the user claims is believed, as ROCm does."""
    claimed = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", environ.get(_OVERRIDE, "").strip())
    if claimed:
        return _arch(*map(int, claimed.groups()))
    version = properties["gfx_target_version"]
    return _arch(version // 10000, version // 100 % 100, version % 100)


def _picked(gpus: list[dict[str, int]], wanted: str) -> list[dict[str, int]]:
    """Return the GPUs that a variable names, by number or `GPU-` and unique id, up to a wrong one."""
    by_name = {str(number): gpu for number, gpu in enumerate(gpus)}
    by_name |= {f"GPU-{gpu.get('unique_id', 0):016x}": gpu for gpu in gpus}
    picked: list[dict[str, int]] = []
    for name in (part.strip() for part in wanted.split(",")):
        if name not in by_name or by_name[name] in picked:
            break
        picked.append(by_name[name])
    return picked


def _left_visible(gpus: list[dict[str, int]], environ: Mapping[str, str]) -> list[dict[str, int]]:
    """Apply ROCm's variables: the driver's, empty too, and then HIP's, or in its place CUDA's."""
    if (wanted := environ.get("ROCR_VISIBLE_DEVICES")) is not None:
        gpus = _picked(gpus, wanted)
    if wanted := environ.get("HIP_VISIBLE_DEVICES") or environ.get("CUDA_VISIBLE_DEVICES"):
        gpus = _picked(gpus, wanted)
    return gpus


def visible_amd_gpus(environ: Mapping[str, str], topology: Path = TOPOLOGY, device: Path = DEVICE) -> Gpus:
    """List the GPUs that a process with this environment sees, in the order of ROCm."""
    if not topology.is_dir():
        return Gpus((), f"there is no driver of AMD GPUs ({TOPOLOGY.parents[1]})")
    nodes = sorted((node for node in topology.iterdir() if node.name.isdecimal()), key=lambda node: int(node.name))
    all_gpus = [found for node in nodes if (found := _properties(node)).get("gfx_target_version")]
    if not all_gpus:
        return Gpus((), "the driver of AMD GPUs lists none")
    visible = _left_visible(all_gpus, environ)
    if not visible:
        return Gpus((), "ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES or CUDA_VISIBLE_DEVICES hides every AMD GPU")
    if not os.access(device, os.R_OK | os.W_OK):
        return Gpus((), f"you may not use {device}: join the groups render and video")
    return Gpus(tuple(Gpu(_NAME, _arch_of(gpu, environ)) for gpu in visible))
