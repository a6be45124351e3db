"""Routed experts of prompts: many tokens, as matrix products over the rows of each expert."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import torch
from torch.nn.functional import grouped_mm, silu

from strata_runtime.checkpoint.network import Network
from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.precision import Precision
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.executor import Executor, ExpertLayer
from strata_runtime.phases import Laps, NoLaps

_DECODED_BYTES = 1 << 29  # of weights in floats at a time


@dataclass(frozen=True, slots=True)
class Matrices:
    """The same matrix of several experts on the device: `addresses` int64 and `scales` float32 [experts] there."""

    format: str
    rows: int
    columns: int
    addresses: torch.Tensor
    scales: torch.Tensor


Triple = tuple[Matrices, Matrices, Matrices]
"""Gate, up and down."""


class ExpertStore(Protocol):
    """Brings experts where the device reads them."""

    def on_device(self, layer: int, experts: range) -> Triple:
        """Return matrices of neighbouring experts of a layer, which are there until the next call but one."""
        ...

    def passing(self) -> AbstractContextManager[None]:
        """Go around a pass: nothing works for it behind that."""
        ...

    def close(self) -> None:
        """End. Idempotent."""
        ...


def experts_together(network: Network, precision: Precision) -> int:
    """Return how many experts of a layer have a matrix in floats at a time."""
    return max(1, min(network.experts, _DECODED_BYTES // _matrix_bytes(network, precision)))


def decoded_bytes(network: Network, precision: Precision) -> int:
    """Return the bytes of a device that weights in floats take on each lane."""
    return experts_together(network, precision) * _matrix_bytes(network, precision)


def passing_bytes(network: Network, precision: Precision, tokens: int) -> int:
    """Return about how many bytes of a device one pass of a prompt takes beside weights and cache."""
    half, top_k = precision.products.itemsize, network.top_k
    of_entry = network.hidden_size * (4 + 3 * half) + network.expert_width * (4 + 2 * half)
    of_token = 4 * (6 * network.hidden_size + 4 * network.heads * network.head_dim)
    return tokens * (top_k * of_entry + of_token)


def _matrix_bytes(network: Network, precision: Precision) -> int:
    return network.hidden_size * network.expert_width * precision.products.itemsize


class Prompts:
    """Computes all experts of a layer from weights in floats, one matrix of several experts at a time.

    Implements `Executor`.
    """

    def __init__(self, compute: DeviceCompute, network: Network, store: ExpertStore) -> None:
        self.laps: Laps = NoLaps()
        self._compute, self._network, self._store = compute, network, store
        self._together = experts_together(network, compute.precision)
        self._decoded: dict[int, torch.Tensor] = {}  # by lane

    @property
    def key(self) -> Hashable:
        """See `Executor`."""
        return None

    def rest(self) -> None:
        """See `Executor`: the pool has no part in it."""

    def passing(self, tokens: int) -> AbstractContextManager[None]:
        """See `Executor`."""
        return self._store.passing()

    def close(self) -> None:
        """See `Executor`."""
        self._store.close()

    def join_late(self, buffers: Buffers) -> None:
        """See `Executor`: nothing is late."""

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`: entries are sorted by expert, and each expert multiplies its own."""
        top_k, experts = weights.shape[1], self._network.experts
        chosen = buffers.expert_ids.view(-1)
        order = chosen.argsort(stable=True)
        # Not `bincount`, which has the host wait for the smallest and the largest number.
        counts = torch.zeros(experts, dtype=torch.int64, device=chosen.device)
        counts.index_add_(0, chosen, torch.ones_like(chosen, dtype=torch.int64))
        rows = buffers.normed.values.to(self._compute.precision.products)[order // top_k]
        if self._together == experts:
            found = self._experts(layer.number, range(experts), rows, counts.cumsum(0).to(torch.int32))
        else:
            found = self._in_turn(layer.number, rows, counts)
        # Rows are fetched, not sent: that takes a fifth of the time, and in half the bytes.
        place = torch.empty_like(order)
        place[order] = torch.arange(len(order), device=order.device)
        buffers.expert_rows.copy_(found[place])

    def _in_turn(self, layer: int, rows: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
        self._compute.settle()
        found, ends = [], counts.cumsum(0).tolist()
        first = 0
        for begin in range(0, self._network.experts, self._together):
            some = range(begin, min(begin + self._together, self._network.experts))
            last = ends[some[-1]]
            if last > first:
                within = torch.tensor(ends[some.start : some.stop], dtype=torch.int32) - first
                found.append(self._experts(layer, some, rows[first:last], within.to(rows.device)))
            first = last
        return torch.cat(found)

    def _experts(self, layer: int, experts: range, rows: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        """Multiply rows that are sorted by expert; those of the i-th end before row ends[i]."""
        gate, up, down = self._store.on_device(layer, experts)
        count = len(experts)
        middle = silu(_grouped(rows, self._floats(gate, count), ends).float())
        middle *= _grouped(rows, self._floats(up, count), ends)
        return _grouped(middle.to(rows.dtype), self._floats(down, count), ends)

    def _floats(self, matrices: Matrices, count: int) -> torch.Tensor:
        """Decode matrices into the memory that the last ones had: what reads them has been launched."""
        compute, precision = self._compute, self._compute.precision
        lane = compute.lanes.current
        if lane not in self._decoded:
            size = self._together * self._network.hidden_size * self._network.expert_width
            self._decoded[lane] = compute.empty(size, dtype=precision.products)
        shape = count, matrices.rows, matrices.columns
        out = self._decoded[lane][: count * matrices.rows * matrices.columns].view(shape)
        compute.native.device.to_floats_many(
            matrices.format,
            matrices.rows,
            matrices.columns,
            matrices.addresses.data_ptr(),
            count,
            matrices.scales.data_ptr(),
            precision.products_name,
            out.data_ptr(),
            compute.stream,
        )
        return out

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        compute, hidden = self._compute, buffers.hidden
        tokens, top_k = weights.shape
        where = buffers.expert_rows.data_ptr(), weights.data_ptr(), hidden.data_ptr()
        compute.native.device.combine(tokens, top_k, hidden.shape[1], *where, compute.stream)


class BySize:
    """One executor for passes that the kernels of windows take, another one for larger ones. Implements `Executor`.

    Each of the two is for one thread at a time.
    """

    def __init__(self, small: Executor, large: Executor, compute: DeviceCompute) -> None:
        self._small, self._large, self._lanes, self._most = small, large, compute.lanes, compute.most_rows
        self._of_lane: dict[int, Executor] = {}

    @property
    def _now(self) -> Executor:
        return self._of_lane.get(self._lanes.current, self._large)

    @property
    def laps(self) -> Laps:
        """See `Executor`."""
        return self._now.laps

    @property
    def key(self) -> Hashable:
        """See `Executor`."""
        return self._now.key

    def rest(self) -> None:
        """See `Executor`."""
        self._now.rest()

    def passing(self, tokens: int) -> AbstractContextManager[None]:
        """See `Executor`."""
        self._of_lane[self._lanes.current] = self._small if tokens <= self._most else self._large
        return self._now.passing(tokens)

    def close(self) -> None:
        """See `Executor`."""
        self._small.close()
        self._large.close()

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        self._now.begin(layer, buffers, weights)

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        self._now.finish(layer, buffers, weights)

    def join_late(self, buffers: Buffers) -> None:
        """See `Executor`."""
        self._now.join_late(buffers)


def _grouped(rows: torch.Tensor, weights: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """Multiply rows by the matrix [rows, columns] of each group."""
    if rows.dtype == torch.bfloat16 and rows.is_cuda:
        return grouped_mm(rows, weights.transpose(1, 2), offs=ends)
    pieces, first = [], 0
    for weight, last in zip(weights, ends.tolist(), strict=True):
        pieces.append(rows[first:last] @ weight.T)
        first = last
    return torch.cat(pieces)
