"""The GPUs of this machine, as the driver's own tool tells them."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from strata_gen.errors import GeneratorError

_ASK = ("--query-gpu=name,compute_cap,driver_version", "--format=csv,noheader")
_DRIVER = "install NVIDIA's driver, 580 or newer (https://www.nvidia.com/drivers)"


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU: its product name, its architecture (`sm_90`), and the release of the driver."""

    name: str
    arch: str
    driver: str

    def __str__(self) -> str:
        return f"{self.name} ({self.arch}, driver {self.driver})"


def _gpu(line: str) -> Gpu:
    name, capability, driver = (word.strip() for word in line.rsplit(",", 2))
    return Gpu(name, f"sm_{capability.replace('.', '')}", driver)


def visible_gpus(environ: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Return the GPUs that nvidia-smi sees, at least one. Raises `GeneratorError` when there is no driver or no GPU."""
    tool = shutil.which("nvidia-smi", path=environ.get("PATH"))
    if tool is None:
        raise GeneratorError("no NVIDIA driver: there is no nvidia-smi on PATH", mend=_DRIVER)
    try:
        done = subprocess.run([tool, *_ASK], env=environ, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise GeneratorError(f"nvidia-smi does not run: {problem}", where=tool, mend=_DRIVER) from None
    lines = [line for line in done.stdout.splitlines() if line.strip()]
    if done.returncode != 0 or not lines:
        said = next(iter((*lines, *done.stderr.splitlines())), "it says nothing")
        raise GeneratorError(f"nvidia-smi sees no GPU: {said}", where=tool, mend=_DRIVER)
    try:
        return tuple(map(_gpu, lines))
    except ValueError:
        raise GeneratorError(f"nvidia-smi says what nobody understands: {lines[0]}", where=tool, mend=_DRIVER) from None
