"""Blocks of random bits, for any format: takes nothing but the format's table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from strata_runtime.formats import Bytes, Field, FormatInfo

_PLAIN = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def factors(info: FormatInfo) -> Iterator[Field]:
    """The fields that multiply whole blocks."""
    return (field for field in (info.scale, info.minimum) if field is not None)


def random_blocks(info: FormatInfo, rows: int, columns: int, seed: int = 0, size: float = 0.01) -> Bytes:
    """Return rows [rows, row_bytes] of random bits whose factors are near `size`; plain floats are normal numbers."""
    generator = np.random.default_rng(seed)
    if info.values is not None:
        values = (100 * size * generator.standard_normal((rows, columns))).astype(np.float32)
        plain = torch.from_numpy(values).to(_PLAIN[info.name])
        return plain.view(torch.uint8).numpy()
    blocks = generator.integers(0, 256, (rows, columns // info.block_elements, info.block_bytes), np.uint8)
    for field in factors(info):
        factor = size * generator.uniform(0.5, 2, blocks.shape[:2]) * generator.choice([-1, 1], blocks.shape[:2])
        if field.type == "f16":
            put(blocks, field, factor.astype(np.float16))
        else:
            put(blocks, field, np.round(np.log2(np.abs(factor)) + 128).astype(np.uint8))
    return blocks.reshape(rows, -1)


def put(blocks: Bytes, field: Field, values: NDArray[Any]) -> None:
    """Write one value per block into a field of blocks [..., block_bytes]."""
    packed = np.ascontiguousarray(values)[..., None].view(np.uint8)
    blocks[..., field.offset : field.offset + packed.shape[-1]] = packed
