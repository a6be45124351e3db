"""Linear layers in their stored format, computed by the native pool."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from strata_runtime.native import Matrix, NativeModule, Pool

STORED_FORMATS = {torch.bfloat16: "bf16", torch.float32: "f32"}
"""Format names of what checkpoints store."""


@dataclass(frozen=True, slots=True)
class Compute:
    """The native module and the pool that it works on."""

    native: NativeModule
    pool: Pool


class Linear:
    """out = x @ weight.T + bias, the weight used where it lies."""

    __slots__ = ("_bias", "_compute", "_matrix")

    def __init__(self, compute: Compute, weight: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        """`weight`: stored [features, inputs], contiguous; `bias`: [features]."""
        rows, columns = weight.shape
        self._compute = compute
        self._matrix: Matrix = compute.native.make_matrix(
            STORED_FORMATS[weight.dtype], rows, columns, weight.data_ptr(), weight.nbytes, weight
        )
        self._bias = None if bias is None else bias.to(torch.float32)

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Write the product of `x` [tokens, inputs] to `out` [tokens, features]; both contiguous."""
        compute = self._compute
        compute.native.linear(compute.pool, self._matrix, x.shape[0], x.data_ptr(), out.data_ptr())
        if self._bias is not None:
            out.add_(self._bias)
