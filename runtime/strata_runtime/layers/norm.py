"""Root mean square norms."""

from __future__ import annotations

import torch

from strata_runtime.layers.compute import Activation, Compute


class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight."""

    __slots__ = ("_compute", "_eps", "_weight")

    def __init__(self, compute: Compute, weight: torch.Tensor, eps: float) -> None:
        """`weight`: float [size]."""
        self._compute, self._eps = compute, eps
        self._weight = compute.constant(weight)

    def __call__(self, x: torch.Tensor, out: Activation) -> None:
        """Write the norm of every row of `x` [rows, size] to `out`, which may lie on `x`; both contiguous float32."""
        self._compute.rms_norm(x, self._weight, self._eps, out)
