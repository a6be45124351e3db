"""The GPUs of this machine, asked of NVIDIA's driver itself: no other library, and no package, is needed for that."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

_DRIVER = "libcuda.so.1"
_NO_DEVICE = 100
_MAJOR, _MINOR = 75, 76  # numbers of the attributes that make the compute capability


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU's product name and architecture (`sm_90`)."""

    name: str
    arch: str

    def __str__(self) -> str:
        return f"{self.name}, {self.arch}"


@dataclass(frozen=True, slots=True)
class Gpus:
    """The GPUs that the process sees, in the driver's order; `problem` says why there are none."""

    visible: tuple[Gpu, ...]
    problem: str = ""


def _gpu(driver: ctypes.CDLL, number: int) -> Gpu:
    device, value, text = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
    driver.cuDeviceGet(ctypes.byref(device), number)
    driver.cuDeviceGetName(text, len(text), device)
    capability = 0
    for attribute in (_MAJOR, _MINOR):
        driver.cuDeviceGetAttribute(ctypes.byref(value), attribute, device)
        capability = 10 * capability + value.value
    return Gpu(text.value.decode(errors="replace"), f"sm_{capability}")


def visible_gpus() -> Gpus:
    """Ask the driver, which this process keeps loaded. `CUDA_VISIBLE_DEVICES` counts."""
    try:
        driver = ctypes.CDLL(_DRIVER)
    except OSError:
        return Gpus((), f"there is no NVIDIA driver ({_DRIVER})")
    count = ctypes.c_int()
    if code := driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        said = "sees no GPU" if code == _NO_DEVICE else f"does not start (error {code}): look at nvidia-smi"
        return Gpus((), f"the NVIDIA driver {said}")
    found = tuple(_gpu(driver, number) for number in range(count.value))
    return Gpus(found, "" if found else "the NVIDIA driver sees no GPU")
