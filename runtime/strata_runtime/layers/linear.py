"""Linear layers: matrices that multiply the same rows, with their scales and biases."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.compute import Activation, Compute, Weight


def floats(stored: Stored) -> torch.Tensor:
    """Decode a small tensor, such as a norm's weight, to float32 of its shape."""
    return torch.from_numpy(stored.floats())


class Linear:
    """y = scale * (x @ weight.T) + bias, for each of the roles."""

    __slots__ = ("_biases", "_products")

    def __init__(self, compute: Compute, tensors: Mapping[str, Stored], *roles: str) -> None:
        """`tensors`: a weight [features, inputs] by role; `ROLE_bias` [features] and `ROLE_scale` [1] are optional."""
        weights = []
        for role in roles:
            scale = tensors.get(f"{role}_scale")
            weights.append(Weight(tensors[role], 1.0 if scale is None else float(scale.floats()[0])))
        self._products = compute.products(weights)
        biases = (tensors.get(f"{role}_bias") for role in roles)
        self._biases = tuple(None if bias is None else compute.constant(floats(bias)) for bias in biases)

    def __call__(self, x: Activation, *outs: torch.Tensor) -> None:
        """Write the products of `x` [tokens, inputs] to `outs` [tokens, features]."""
        self._products(x, outs)
        for bias, out in zip(self._biases, outs, strict=True):
            if bias is not None:
                out.add_(bias)

    def add(self, x: Activation, out: torch.Tensor, scratch: torch.Tensor) -> None:
        """Add the product of the one weight to `out`; `scratch` is like it."""
        (bias,) = self._biases
        if bias is None:
            self._products.add(x, out, scratch)
        else:
            self(x, scratch)
            out.add_(scratch)
