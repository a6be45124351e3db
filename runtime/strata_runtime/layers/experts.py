"""Routed experts in memory: in the checkpoint's format, or re-encoded once while loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.errors import UserError
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.placing import Place
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.native import ExpertPart, Experts

STORED = "stored"
_ALIGNMENT = 64  # bytes: one cache line, and one vector of the widest kernels


@dataclass(frozen=True, slots=True)
class LoadedExperts:
    """One layer's experts, the names of their formats, and the bytes that they take in those, whatever the layout.

    `places`: where each expert's gate, up and down matrices are.
    """

    experts: Experts
    places: tuple[Sequence[Place], ...]
    formats: frozenset[str]
    bytes: int


def _row_bytes(form: FormatInfo, columns: int) -> int:
    try:
        return form.row_bytes(columns)
    except ValueError as problem:
        raise UserError(f"engine.expert_format {form.name}: {problem}; choose another format") from None


def in_format(compute: PoolCompute, matrix: Stored, form: FormatInfo) -> Stored:
    """Return a matrix in a format: itself, or re-encoded into memory of its own. Raises `UserError` where it cannot."""
    if matrix.form.name == form.name:
        return matrix
    rows, columns = matrix.shape
    size = rows * _row_bytes(form, columns)
    try:
        values, memory = np.empty((rows, columns), np.float32), np.empty(size + _ALIGNMENT, np.uint8)
    except MemoryError:
        raise UserError(f"no memory for the experts in {form.name}: keep engine.expert_format at {STORED}") from None
    first = -memory.ctypes.data % _ALIGNMENT
    encoded = Stored(matrix.where, form, matrix.shape, memory[first : first + size])
    native, pool = compute.native, compute.pool
    native.dequantize(matrix.form.name, rows, columns, matrix.address, values.ctypes.data, pool)
    try:
        native.quantize(form.name, rows, columns, values.ctypes.data, encoded.address, pool)
    except ValueError as problem:
        raise UserError(f"{matrix.where}: {problem}; choose another engine.expert_format") from None
    return encoded


def _require_one_format(matrices: Sequence[Stored], role: str, layer: int) -> None:
    stored = {matrix.form.name for matrix in matrices}
    if len(stored) > 1:
        what = role.removeprefix("expert_")
        raise UserError(
            f"the experts of layer {layer} have {what} matrices in {' and '.join(sorted(stored))}: "
            "choose one format with engine.expert_format"
        )


@dataclass(frozen=True, slots=True)
class _Part:
    """The same matrix of every expert, in one format and one layout."""

    form: FormatInfo
    places: Sequence[Place]
    bytes: int

    def argument(self, scales: Sequence[float]) -> ExpertPart:
        return self.form.name, [place.address for place in self.places], scales, self.places[0].layout


def _place(compute: PoolCompute, matrices: Sequence[Stored], wanted: FormatInfo | None, role: str, layer: int) -> _Part:
    if wanted is None:
        _require_one_format(matrices, role, layer)
    form = wanted or matrices[0].form
    places, size = [], 0
    for matrix in matrices:
        kept = in_format(compute, matrix, form)
        places.append(compute.placer.place(kept))
        size += len(kept.data)
    return _Part(form, places, size)


def expert_scales(tensors: Mapping[str, Stored], role: str) -> list[float]:
    """Return what multiplies the products of one matrix of every expert; empty where nothing does."""
    scale = tensors.get(f"{role}_scale")
    return [] if scale is None else [float(value) for value in scale.floats()]


def load_experts(
    compute: PoolCompute, weights: LayerWeights, network: Network, wanted: FormatInfo | None, layer: int
) -> LoadedExperts:
    """Make one layer's experts, with their scales when there are such. `wanted` None keeps what is stored.

    Raises `UserError` when `wanted` does not divide the rows, and when one of the three matrices is stored in several
    formats.
    """
    parts = [_place(compute, weights.experts[role], wanted, role, layer) for role in EXPERT_ROLES]
    gate, up, down = (
        part.argument(expert_scales(weights.tensors, role)) for role, part in zip(EXPERT_ROLES, parts, strict=True)
    )
    owners = [place.owner for part in parts for place in part.places]
    made = compute.native.make_experts(network.hidden_size, network.expert_width, gate, up, down, owners)
    places = tuple(part.places for part in parts)
    return LoadedExperts(made, places, frozenset(part.form.name for part in parts), sum(part.bytes for part in parts))
