"""Linear layers and embeddings in their stored format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.layers.placing import InFile, Placer
from strata_runtime.native import Matrix, NativeModule, Pool


@dataclass(slots=True)
class Compute:
    """The native module, and the pool that it works on. All layers of a network share one, and look when they run.

    `placer` says where their weights go while they are made.
    """

    native: NativeModule
    pool: Pool
    placer: Placer = field(default_factory=InFile)


def floats(stored: Stored) -> torch.Tensor:
    """Decode a small tensor, such as a norm's weight, to float32 of its shape."""
    return torch.from_numpy(stored.floats())


class Linear:
    """y = scale * (x @ weight.T) + bias."""

    __slots__ = ("_bias", "_compute", "_matrix")

    def __init__(
        self, compute: Compute, weight: Stored, bias: Stored | None = None, scale: Stored | None = None
    ) -> None:
        """`weight`: [features, inputs]; `bias`: [features]; `scale`: [1]."""
        rows, columns = weight.shape
        factor = 1.0 if scale is None else float(scale.floats()[0])
        self._compute = compute
        place = compute.placer.place(weight)
        self._matrix: Matrix = compute.native.make_matrix(
            weight.form.name, rows, columns, place.address, place.bytes, place.owner, factor, place.layout
        )
        self._bias = None if bias is None else floats(bias)

    @staticmethod
    def of(compute: Compute, tensors: Mapping[str, Stored], role: str) -> Linear:
        """Make the layer of `role`, with its bias and its scale when there are such."""
        return Linear(compute, tensors[role], tensors.get(f"{role}_bias"), tensors.get(f"{role}_scale"))

    def __call__(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """Write the product of `x` [tokens, inputs] to `out` [tokens, features]; both contiguous."""
        compute = self._compute
        compute.native.linear(compute.pool, self._matrix, x.shape[0], x.data_ptr(), out.data_ptr())
        if self._bias is not None:
            out.add_(self._bias)


class Embedding:
    """Rows of a stored matrix, decoded when they are asked for."""

    __slots__ = ("_address", "_columns", "_native", "_row_bytes", "_weight", "rows")

    def __init__(self, compute: Compute, weight: Stored) -> None:
        """`weight`: [rows, columns]."""
        self.rows, self._columns = weight.shape
        self._native, self._weight, self._address = compute.native, weight, weight.address
        self._row_bytes = len(weight.data) // self.rows

    def __call__(self, ids: Sequence[int], out: torch.Tensor) -> None:
        """Write the rows of `ids`, each from 0 to `rows` - 1, to `out`: contiguous float32 [ids, columns]."""
        form, to, step = self._weight.form.name, out.data_ptr(), self._columns * out.itemsize
        for index, row in enumerate(ids):
            place = self._address + row * self._row_bytes
            self._native.dequantize(form, 1, self._columns, place, to + index * step)
