"""Stored blocks of any weight format, made of random bits."""

from __future__ import annotations

from functools import cache

import numpy as np
from gguf import GGMLQuantizationType, quants

from strata_gen.model.format import Format
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.formats import Bytes, Floats, FormatInfo

SPECIAL_HALVES = (0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0xFE01)
"""Half-precision zeros, subnormals, the smallest normal, the largest, infinities, NaN."""


@cache
def all_formats() -> tuple[Format, ...]:
    """The formats of the project's specs."""
    return load_specs((specs_root(),)).formats


def names(*, encoded: bool = False) -> list[str]:
    """Names of all formats, or of those that floats can be encoded in."""
    return [spec.name for spec in all_formats() if spec.encode is not None or not encoded]


def block_of(name: str) -> int:
    """Values in a block."""
    return next(spec.elements for spec in all_formats() if spec.name == name)


def laid_out(isa: str) -> list[str]:
    """Names of the formats that have a compute layout for an instruction set."""
    return [spec.name for spec in all_formats() if spec.interleaved_rows(isa)]


def has_reference_encoder(name: str) -> bool:
    """Whether the gguf package can encode a format too."""
    spec = next(spec for spec in all_formats() if spec.name == name)
    assert spec.gguf is not None
    try:
        quants.quantize(np.ones((1, spec.elements), np.float32), GGMLQuantizationType[spec.gguf])
    except NotImplementedError:
        return False
    return True


def reference_type(info: FormatInfo) -> GGMLQuantizationType:
    """The format's type in the gguf package."""
    assert info.gguf is not None
    return GGMLQuantizationType[info.gguf]


def reference_encode(info: FormatInfo, values: Floats) -> Bytes:
    """Encode rows with the gguf package."""
    encoded: Bytes = quants.quantize(values, reference_type(info)).view(np.uint8).reshape(len(values), -1)
    return np.ascontiguousarray(encoded)


def reference_decode(info: FormatInfo, blocks: Bytes) -> Floats:
    """Decode rows [rows, row_bytes] with the gguf package."""
    with np.errstate(all="ignore"):
        decoded: Floats = quants.dequantize(blocks, reference_type(info)).astype(np.float32)
    return decoded


def same_values(left: Floats, right: Floats) -> bool:
    """Whether two arrays have the same bits, all NaN being one."""
    both_nan = np.isnan(left) & np.isnan(right)
    return bool((both_nan | (left.view(np.uint32) == right.view(np.uint32))).all())
