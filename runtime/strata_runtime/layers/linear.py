"""Linear layers in their stored format, computed by the native pool."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.shard import TORCH_TYPES
from strata_runtime.formats import FormatInfo
from strata_runtime.native import Matrix, NativeModule, Pool


@dataclass(frozen=True, slots=True)
class Compute:
    """The native module, the pool that it works on, and the names of its formats for what checkpoints store."""

    native: NativeModule
    pool: Pool
    stored: Mapping[torch.dtype, str]


def stored_formats(formats: Iterable[FormatInfo]) -> dict[torch.dtype, str]:
    """Return the formats of a kernels package that hold the same bits as tensors of a checkpoint, by element type."""
    return {TORCH_TYPES[form.safetensors]: form.name for form in formats if form.safetensors in TORCH_TYPES}


class Linear:
    """out = x @ weight.T + bias, the weight used where it lies."""

    __slots__ = ("_bias", "_compute", "_matrix")

    def __init__(self, compute: Compute, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """`weight`: stored [features, inputs], contiguous; `bias`: [features]."""
        rows, columns = weight.shape
        self._compute = compute
        self._matrix: Matrix = compute.native.make_matrix(
            compute.stored[weight.dtype], rows, columns, weight.data_ptr(), weight.nbytes, weight
        )
        self._bias = None if bias is None else bias.to(torch.float32)

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Write the product of `x` [tokens, inputs] to `out` [tokens, features]; both contiguous."""
        compute = self._compute
        compute.native.linear(compute.pool, self._matrix, x.shape[0], x.data_ptr(), out.data_ptr())
        if self._bias is not None:
            out.add_(self._bias)
