"""Root mean square norms."""

from __future__ import annotations

import math

import torch


class RmsNorm:
    """x / sqrt(mean(x^2) + eps) * weight over the last dimension.

    Four small operations instead of torch's one, which takes twice their time for a single token: with n = |x| over
    `size` elements it is x / hypot(n, sqrt(size * eps)) * (weight * sqrt(size)).
    """

    __slots__ = ("_floor", "_weight")

    def __init__(self, weight: torch.Tensor, eps: float) -> None:
        """`weight`: float [..., size], broadcast over x."""
        size = weight.shape[-1]
        self._weight = weight.to(torch.float32) * math.sqrt(size)
        self._floor = torch.tensor(math.sqrt(size * eps), dtype=torch.float32)

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Write the norm of `x` [..., size] to `out`, which may be `x`."""
        length = torch.linalg.vector_norm(x, dim=-1, keepdim=True).hypot_(self._floor)
        torch.div(x, length, out=out)
        out.mul_(self._weight)
