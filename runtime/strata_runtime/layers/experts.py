"""Routed experts in memory: where the checkpoint has them, or re-encoded once while loading."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from strata_runtime.checkpoint.network import Network
from strata_runtime.errors import UserError
from strata_runtime.formats import FormatInfo
from strata_runtime.layers.linear import Compute
from strata_runtime.native import Experts, NativeModule

STORED = "stored"
ROLES = ("expert_gate", "expert_up", "expert_down")
_ALIGNMENT = 64  # bytes: one cache line, and one vector of the widest kernels


@dataclass(frozen=True, slots=True)
class LoadedExperts:
    """One layer's experts, their format's name, and the bytes that they take."""

    experts: Experts
    format: str
    bytes: int


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _matrix_bytes(form: FormatInfo, matrix: torch.Tensor) -> int:
    rows, columns = matrix.shape
    try:
        return rows * form.row_bytes(columns)
    except ValueError as problem:
        raise UserError(f"engine.expert_format {form.name}: {problem}; choose another format") from None


def _encode(
    native: NativeModule, matrices: Mapping[str, Sequence[torch.Tensor]], form: FormatInfo
) -> tuple[dict[str, list[int]], torch.Tensor]:
    """Encode all matrices into one allocation. Returns their addresses by role, and the memory."""
    sizes = {role: _aligned(_matrix_bytes(form, matrices[role][0])) for role in ROLES}
    try:
        memory = torch.empty(sum(sizes[role] * len(matrices[role]) for role in ROLES) + _ALIGNMENT, dtype=torch.uint8)
    except (RuntimeError, MemoryError):
        raise UserError(f"no memory for the experts in {form.name}: keep engine.expert_format at {STORED}") from None
    address = _aligned(memory.data_ptr())
    places: dict[str, list[int]] = {role: [] for role in ROLES}
    for role in ROLES:
        for matrix in matrices[role]:
            values = matrix.to(torch.float32).contiguous()
            rows, columns = values.shape
            native.quantize(form.name, rows, columns, values.data_ptr(), address)
            places[role].append(address)
            address += sizes[role]
    return places, memory


def load_experts(
    compute: Compute,
    matrices: Mapping[str, Sequence[torch.Tensor]],
    network: Network,
    wanted: FormatInfo | None,
    layer: int,
) -> LoadedExperts:
    """Make one layer's experts, by role in their order. `wanted` None keeps what is stored, without a copy.

    Raises `UserError` when `wanted` does not divide the rows, and when what is stored is of several formats.
    """
    owner: object
    stored = {compute.stored[matrix.dtype] for role in ROLES for matrix in matrices[role]}
    if wanted is None or stored == {wanted.name}:
        name, owner = _only(stored, layer), [matrix for role in ROLES for matrix in matrices[role]]
        places = {role: [matrix.data_ptr() for matrix in matrices[role]] for role in ROLES}
        used = sum(matrix.nbytes for role in ROLES for matrix in matrices[role])
    else:
        places, memory = _encode(compute.native, matrices, wanted)
        name, owner, used = wanted.name, memory, memory.nbytes
    gate, up, down = ((name, places[role], ()) for role in ROLES)
    made = compute.native.make_experts(network.hidden_size, network.expert_width, gate, up, down, owner)
    return LoadedExperts(made, name, used)


def _only(stored: set[str], layer: int) -> str:
    if len(stored) > 1:
        raise UserError(
            f"the experts of layer {layer} are stored in {' and '.join(sorted(stored))}: "
            "choose one with engine.expert_format"
        )
    return next(iter(stored))
