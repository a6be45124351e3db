"""Which architectures a module has device code for, by the code objects inside it."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator

from strata_gen.errors import GeneratorError
from strata_gen.wheel.elf import SharedObject

_CUDA_SECTION, _HIP_SECTION = ".nv_fatbin", ".hip_fatbin"

# A container: magic, version, size of its header, size of what follows. Entries begin with kind (1: PTX, 2: machine
# code), version, size of the entry's header, size of the code; the architecture stands at 28, flags at 40.
_CONTAINER = struct.Struct("<IHHQ")
_CONTAINER_MAGIC = 0xBA55ED50
_ENTRY = struct.Struct("<HHIQ12xI8xQ")
_PTX = 1
_VARIANTS = {1 << 20: "a", 1 << 21: "f"}

# Every code object names its target in a note, and a bundle of several names them once more.
_HIP_TARGET = re.compile(rb"amdgcn-amd-amdhsa--(gfx[0-9a-z-]+)")


def _cuda_entries(container: bytes) -> Iterator[str]:
    at = 0
    while at < len(container):
        kind, _, header, size, number, flags = _ENTRY.unpack_from(container, at)
        variant = next((letter for flag, letter in _VARIANTS.items() if flags & flag), "")
        yield f"{'compute' if kind == _PTX else 'sm'}_{number}{variant}"
        at += header + size


def _cuda_architectures(section: bytes) -> Iterator[str]:
    at = 0
    while at + _CONTAINER.size <= len(section):
        magic, _, header, size = _CONTAINER.unpack_from(section, at)
        if magic == _CONTAINER_MAGIC:
            yield from _cuda_entries(section[at + header : at + header + size])
            at += header + size
        else:
            at += 8  # containers are aligned, with zeros between them


def _hip_architectures(section: bytes) -> Iterator[str]:
    found = [name.decode() for name in _HIP_TARGET.findall(section)]
    if section and not found:
        raise GeneratorError("the module's device code is compressed, so that its architectures cannot be read")
    yield from found


def architectures(module: SharedObject) -> frozenset[str]:
    """Return the names of the architectures that a module has code for: `sm_90`, `compute_90` for PTX, `gfx1151`.

    Empty for a module without device code. Raises `GeneratorError` for code that cannot be looked into.
    """
    try:
        found = frozenset(_cuda_architectures(module.sections.get(_CUDA_SECTION, b"")))
        return found | frozenset(_hip_architectures(module.sections.get(_HIP_SECTION, b"")))
    except struct.error as problem:
        raise GeneratorError("the module's device code cannot be read") from problem
