"""Routed experts in memory: where the checkpoint has them, or re-encoded once while loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.checkpoint.stored import Stored
from strata_runtime.checkpoint.weights import LayerWeights
from strata_runtime.errors import UserError
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.linear import Compute
from strata_runtime.native import Experts

STORED = "stored"
_ALIGNMENT = 64  # bytes: one cache line, and one vector of the widest kernels


@dataclass(frozen=True, slots=True)
class LoadedExperts:
    """One layer's experts, the names of their formats, and the bytes that they take."""

    experts: Experts
    formats: frozenset[str]
    bytes: int


@dataclass(frozen=True, slots=True)
class _Placed:
    """The same matrix of every expert: name of its format, addresses, their memory, and its size in bytes."""

    format: str
    addresses: Sequence[int]
    owner: object
    bytes: int


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _matrix_bytes(form: FormatInfo, matrix: Stored) -> int:
    rows, columns = matrix.shape
    try:
        return rows * form.row_bytes(columns)
    except ValueError as problem:
        raise UserError(f"engine.expert_format {form.name}: {problem}; choose another format") from None


def _encode(compute: Compute, matrices: Sequence[Stored], form: FormatInfo) -> _Placed:
    """Encode all matrices into one allocation."""
    size = _aligned(_matrix_bytes(form, matrices[0]))
    try:
        memory = torch.empty(size * len(matrices) + _ALIGNMENT, dtype=torch.uint8)
    except (RuntimeError, MemoryError):
        raise UserError(f"no memory for the experts in {form.name}: keep engine.expert_format at {STORED}") from None
    rows, columns = matrices[0].shape
    values = np.empty((rows, columns), np.float32)
    address = _aligned(memory.data_ptr())
    addresses = []
    native, pool = compute.native, compute.pool
    for matrix in matrices:
        native.dequantize(matrix.form.name, rows, columns, matrix.address, values.ctypes.data, pool)
        native.quantize(form.name, rows, columns, values.ctypes.data, address, pool)
        addresses.append(address)
        address += size
    return _Placed(form.name, addresses, memory, memory.nbytes)


def _place(compute: Compute, matrices: Sequence[Stored], wanted: FormatInfo | None, role: str, layer: int) -> _Placed:
    stored = {matrix.form.name for matrix in matrices}
    if wanted is not None and stored != {wanted.name}:
        return _encode(compute, matrices, wanted)
    if len(stored) > 1:
        what = role.removeprefix("expert_")
        raise UserError(
            f"the experts of layer {layer} have {what} matrices in {' and '.join(sorted(stored))}: "
            "choose one format with engine.expert_format"
        )
    size = sum(len(matrix.data) for matrix in matrices)
    return _Placed(stored.pop(), [matrix.address for matrix in matrices], matrices, size)


def _scales(tensors: Mapping[str, Stored], role: str) -> list[float]:
    scale = tensors.get(f"{role}_scale")
    return [] if scale is None else [float(value) for value in scale.floats()]


def load_experts(
    compute: Compute, weights: LayerWeights, network: Network, wanted: FormatInfo | None, layer: int
) -> LoadedExperts:
    """Make one layer's experts, with their scales when there are such. `wanted` None keeps what is stored, uncopied.

    Raises `UserError` when `wanted` does not divide the rows, and when one of the three matrices is stored in several
    formats.
    """
    placed = [_place(compute, weights.experts[role], wanted, role, layer) for role in EXPERT_ROLES]
    gate, up, down = (
        (part.format, part.addresses, _scales(weights.tensors, role))
        for role, part in zip(EXPERT_ROLES, placed, strict=True)
    )
    owner = [part.owner for part in placed]
    made = compute.native.make_experts(network.hidden_size, network.expert_width, gate, up, down, owner)
    return LoadedExperts(made, frozenset(part.format for part in placed), sum(part.bytes for part in placed))
