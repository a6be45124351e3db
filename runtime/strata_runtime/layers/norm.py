"""Root mean square norms."""

from __future__ import annotations

import torch

from strata_runtime.layers.linear import Compute


class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight."""

    __slots__ = ("_compute", "_eps", "_weight")

    def __init__(self, compute: Compute, weight: torch.Tensor, eps: float) -> None:
        """`weight`: float [size]."""
        self._compute, self._eps = compute, eps
        self._weight = weight.to(torch.float32).contiguous()

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Write the norm of every row of `x` [rows, size] to `out`, which may be `x`; both contiguous float32."""
        rows, size = x.shape
        native, pool = self._compute.native, self._compute.pool
        native.rms_norm(pool, rows, size, x.data_ptr(), self._weight.data_ptr(), self._eps, out.data_ptr())
