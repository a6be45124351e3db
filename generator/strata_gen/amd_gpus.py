"""The AMD GPUs of this machine, as the kernel's driver lists them."""

from __future__ import annotations

import re
from pathlib import Path

from strata_gen.errors import GeneratorError
from strata_gen.gpus import Gpu

TOPOLOGY = Path("/sys/class/kfd/kfd/topology/nodes")
_DRIVER = "AMD's driver is the module amdgpu of Linux; see that it is loaded, and that /dev/kfd is there"
_VERSION = re.compile(r"^gfx_target_version ([1-9]\d*)$", re.MULTILINE)


def _arch(version: int) -> str:
    """Name an architecture as compilers do: 110501 is gfx1151, 90010 gfx90a."""
    return f"gfx{version // 10000}{version // 100 % 100:x}{version % 100:x}"


def _read(node: Path) -> str:
    try:
        return (node / "properties").read_text()
    except OSError:
        return ""  # a container may hide it


def visible_amd_gpus(topology: Path) -> tuple[Gpu, ...]:
    """Return the GPUs below `topology`, at least one. Raises `GeneratorError` when there is no driver or no GPU."""
    if not topology.is_dir():
        raise GeneratorError(f"no driver of AMD GPUs: there is no {topology}", mend=_DRIVER)
    nodes = sorted((node for node in topology.iterdir() if node.name.isdecimal()), key=lambda node: int(node.name))
    versions = [match[1] for node in nodes if (match := _VERSION.search(_read(node)))]
    if not versions:
        raise GeneratorError("the driver of AMD GPUs lists none", where=str(topology), mend=_DRIVER)
    return tuple(Gpu("AMD GPU", _arch(int(version)), "amdgpu") for version in versions)
