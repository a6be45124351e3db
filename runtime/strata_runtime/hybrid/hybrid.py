"""The executor of shared-out windows: a layer's device half, run in place, and the host half behind a doorbell."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from time import perf_counter
from typing import Literal

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.errors import StallError
from strata_runtime.hybrid.adapting import Adapting
from strata_runtime.hybrid.half import Half
from strata_runtime.hybrid.pcie import PcieShare
from strata_runtime.hybrid.reading import ExpertMemory
from strata_runtime.hybrid.residency import Residency
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.compute import Activation
from strata_runtime.layers.executor import ExpertLayer, Trim
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.native import Pool
from strata_runtime.phases import Laps, NoLaps

PATIENCE = 0.5
"""Seconds for a host half to end: one that takes longer is stuck in the pool."""


@dataclass(frozen=True, slots=True)
class HybridOptions:
    """Sizes of a row and of an expert, and what the knobs `verify.*` and the signals that exist under them say.

    `threshold`: weight from which on CPU rows are waited for in their own layer; None: no split, all join late.
    `device_plan`: the host makes no plan, so the device half does.
    """

    hidden: int
    width: int
    tokens: int
    top_k: int
    defer: Literal["0", "1", "check"] = "0"
    threshold: float | None = None
    device_plan: bool = False
    all_resident: bool = True


@dataclass(frozen=True, slots=True)
class _Late:
    """Rows of a layer that are still to be added."""

    ring: int
    weights: torch.Tensor


class Hybrid:
    """Shares out the experts of windows. For one thread.

    Makes a host half when one is needed: with the first window, after one that failed, when ring values run out, and
    for every pool. It shares that of `compute` with the layers; when it is stuck there, they get a new one.
    """

    def __init__(
        self,
        compute: PoolCompute,
        device: DeviceCompute,
        residency: Residency,
        options: HybridOptions,
        make_half: Callable[[], Half],
        make_pool: Callable[[], Pool],
        trim: Trim | None = None,
        laps: Laps | None = None,
        adapting: Adapting | None = None,
        pcie: PcieShare | None = None,
    ) -> None:
        self.laps: Laps = laps or NoLaps()
        self._compute, self._device, self._kernels = compute, device, device.native.device
        self._residency, self._options, self._trim, self._adapting = residency, options, trim, adapting
        self._pcie = pcie
        self._make_half, self._make_pool = make_half, make_pool
        self._halves: dict[Pool, Half] = {}
        self._half: Half | None = None  # of the newest window
        self._is_closed = False
        self._is_resident = False
        self._ring = 0
        self._late: _Late | None = None
        tokens = options.tokens if residency.slots or pcie is not None else 0
        self._middle = device.rows(tokens * options.top_k, options.width)
        self._blocks = device.blocks(tokens, options.hidden)

    @property
    def key(self) -> Hashable:
        """See `Executor`."""
        return self._is_resident, self._half

    def rest(self) -> None:
        """See `Executor`."""
        if not self._is_resident:
            self._open.rest()

    @contextmanager
    def passing(self, tokens: int) -> Iterator[None]:
        """See `Executor`. Raises `StallError` with a report; the next window works again."""
        if self._is_closed:
            raise RuntimeError("the executor is closed")
        self._late = None
        if self._adapting is not None:
            self._adapting.before_window()
        # Before every window: a slot may have been lent meanwhile.
        self._is_resident = self._options.all_resident and self._residency.is_complete
        half = self._half = self._half_of(self._compute.pool)
        self.laps.start()
        started = perf_counter()
        try:
            with self._residency.read():
                half.begin(self._is_resident)
                yield
                half.end(self._is_resident)
        except BaseException as problem:
            text = self._stall(problem)
            self._give_up()
            if text is not None:
                raise StallError(f"a window came to no end: {text}".rstrip()) from None
            raise
        self.laps.stop()
        if self._is_resident:
            # Nobody rings for the host half, which counts the others.
            self._residency.entries += tokens * self._options.top_k * len(self._residency.table)
        if self._adapting is not None:
            self._adapting.after_window()
        if self._pcie is not None and self._pcie.follows_times and not self._is_resident:
            self._pcie.after_window(half.waited, perf_counter() - started)

    def close(self) -> None:
        """End the host half. Idempotent."""
        self._is_closed = True
        self._give_up()
        while self._halves:
            self._halves.popitem()[1].stop(0.0)
        if self._adapting is not None:
            self._adapting.close()
        if self._pcie is not None:
            self._pcie.close()

    def _half_of(self, pool: Pool) -> Half:
        half = self._halves.get(pool)
        if half is None or half.is_used_up:
            half = self._halves[pool] = self._make_half()
        return half

    def _stall(self, problem: BaseException) -> str | None:
        """Return what is said of a window whose halves did not meet; None for another problem."""
        native = self._compute.native
        if isinstance(problem, native.PoolBusy) and self._half is not None:
            return f"{problem}\n{self._half.report()}"
        return str(problem) if isinstance(problem, native.StallError) else None

    def _give_up(self) -> None:
        half, self._half, self._late = self._half, None, None
        self._halves = {pool: other for pool, other in self._halves.items() if other is not half}
        if half is not None and not half.stop(PATIENCE):
            self._compute.pool = self._make_pool()

    @property
    def _open(self) -> Half:
        if self._half is None:
            raise RuntimeError("the host half was closed in the middle of a window")
        return self._half

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`: trim, plan and ring."""
        options, half = self._options, self._open
        if self._trim is not None:
            self._trim(layer, buffers, weights)
        tokens, top_k = weights.shape
        ids, values = buffers.expert_ids.data_ptr(), weights.data_ptr()
        if self._is_resident or options.device_plan:
            half.make_plan(layer.number, tokens, top_k, self._is_resident, ids, values)
        if not self._is_resident:
            # Weights tell heavy entries from light ones, and those that were trimmed from all others.
            has_split = self._defers(layer) and options.threshold is not None
            told = values if has_split or self._trim is not None else 0
            self._ring = half.publish(layer.number, tokens, top_k, buffers.normed.address, ids, told)
        self.laps.lap("router")

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`: the device's rows, and those of the CPU that are waited for."""
        if not self._is_resident and not self._options.device_plan:
            self._wait("plan_ready", self._ring)
        self._compute_experts(layer, buffers)
        if not self._is_resident:
            self._take_rows(layer, buffers, weights)
        tokens, top_k = weights.shape
        hidden = buffers.hidden
        where = buffers.expert_rows.data_ptr(), weights.data_ptr(), hidden.data_ptr()
        self._kernels.combine(tokens, top_k, hidden.shape[1], *where, self._device.stream)
        self.laps.lap("combine")
        if not self._is_resident and self._defers(layer):
            self._late = _Late(self._ring, weights)
            if self._options.defer == "check":
                self.join_late(buffers)

    def join_late(self, buffers: Buffers) -> None:
        """See `Executor`."""
        late, self._late = self._late, None
        if late is None:
            return
        self._wait("rows_ready", late.ring)
        threshold = self._options.threshold
        which: Literal["all", "below"] = "all" if threshold is None else "below"
        limit, owner = threshold or 0.0, self._owner
        half, device, stream = self._open, self._kernels, self._device.stream
        tokens, top_k = late.weights.shape
        weights, rows, hidden = late.weights.data_ptr(), buffers.expert_rows.data_ptr(), self._options.hidden
        device.rows_copy(tokens * top_k, hidden, which, limit, False, half.rows, owner, weights, rows, stream)
        device.late_add(tokens, top_k, hidden, which, limit, rows, owner, weights, buffers.hidden.data_ptr(), stream)
        self.laps.lap("combine")

    def _defers(self, layer: ExpertLayer) -> bool:
        return self._options.defer != "0" and not layer.is_last

    @property
    def _owner(self) -> int:
        return self._open.plan + self._kernels.OWNER_OFFSET

    def _wait(self, signal: str, ring: int) -> None:
        self._open.wait(signal, ring)
        self.laps.lap("waits")

    def _take_rows(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """Copy the CPU's rows that join now; those that join late are zeros until then."""
        half, options = self._open, self._options
        defers = self._defers(layer)
        if not defers:
            self._wait("rows_ready", self._ring)
        elif options.threshold is not None:
            self._wait("partial_ready", self._ring)
        threshold = inf if options.threshold is None else options.threshold
        self._kernels.rows_copy(
            weights.numel(),
            options.hidden,
            "at_least" if defers else "all",
            threshold if defers else 0.0,
            defers,
            half.rows,
            self._owner,
            weights.data_ptr(),
            buffers.expert_rows.data_ptr(),
            self._device.stream,
        )
        self.laps.lap("combine")

    def _compute_experts(self, layer: ExpertLayer, buffers: Buffers) -> None:
        """Compute the rows of experts that have slots, and of those that the device reads from the host."""
        if self._residency.slots:
            self._launch(self._residency.memory(layer.number), buffers, from_host=False)
        if not self._is_resident:
            self._wait("pcie_ready", self._ring)
            if self._pcie is not None:
                self._launch(self._pcie.memory(layer.number), buffers, from_host=True)

    def _launch(self, at: ExpertMemory, buffers: Buffers, *, from_host: bool) -> None:
        options, kernels, stream = self._options, self._kernels, self._device.stream
        plan, x, middle = self._open.plan, self._quantised(buffers.normed), self._middle
        tokens, top_k = buffers.expert_ids.shape
        sizes = (tokens, top_k, options.hidden, options.width, plan)
        between = middle.address, middle.quantised_address
        first = at.gate, at.gate_stride, 0, at.up_offset, at.gate_scale, at.up_scale
        inputs = x.address, x.quantised_address
        kernels.expert_gate_up(at.gate_format, *sizes, *first, *inputs, *between, stream, from_host)
        second = at.down, at.down_stride, 0, at.down_scale
        kernels.expert_down(
            at.down_format, *sizes, *second, *between, buffers.expert_rows.data_ptr(), stream, from_host
        )
        self.laps.lap("experts")

    def _quantised(self, x: Activation) -> Activation:
        """Return rows with their quantised form, which those that the pool's layers made have not."""
        if x.quantised is None and self._blocks is not None:
            x = Activation(x.values, self._blocks)
            self._device.quantise(x)
        return x
