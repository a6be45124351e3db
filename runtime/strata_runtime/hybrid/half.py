"""The host half of windows, as a device half in this thread or on a stream meets it."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Protocol

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.registered import Registered
from strata_runtime.hybrid.pcie import PcieShare
from strata_runtime.native import HostHalf


class Half(Protocol):
    """What a layer's device half does with the other one. `ring` numbers are those that `publish` returned.

    `plan`, `rows`: where kernels find the plan block, and the rows of the CPU.
    """

    @property
    def plan(self) -> int: ...  # noqa: D102
    @property
    def rows(self) -> int: ...  # noqa: D102
    @property
    def is_used_up(self) -> bool:
        """Whether another one must be made before the next window: ring values are 32-bit numbers."""
        ...

    @property
    def waited(self) -> float:
        """Seconds that the device half of the last window waited for rows of the CPU."""
        ...

    def begin(self, is_resident: bool) -> None:
        """Begin a window. `is_resident`: it asks for no rows of the CPU."""
        ...

    def rest(self) -> None:
        """Sleep until the host half has answered every layer of a window that was launched as a whole."""
        ...

    def end(self, is_resident: bool) -> None:
        """End a window whose kernels have run. Raises the module's `StallError`."""
        ...

    def make_plan(self, layer: int, tokens: int, top_k: int, all_resident: bool, ids: int, weights: int) -> None:
        """See `HostHalf`."""
        ...

    def publish(self, layer: int, tokens: int, top_k: int, x: int, ids: int, weights: int) -> int:
        """See `HostHalf`."""
        ...

    def wait(self, signal: str, ring: int) -> None:
        """See `HostHalf`. Behind `plan_ready` the plan can be read."""
        ...

    def stop(self, seconds: float) -> bool:
        """See `HostHalf`."""
        ...

    def report(self) -> str:
        """See `HostHalf`."""
        ...


RINGS_AT_MOST = 1 << 31
_OF_ROWS = ("rows_ready", "partial_ready")


class InlineHalf:
    """For a device half that runs on this thread. Implements `Half`."""

    def __init__(self, native: HostHalf) -> None:
        self._native = native
        self.make_plan, self.publish = native.make_plan, native.publish
        self.stop, self.report = native.stop, native.report
        self.waited = 0.0

    @property
    def plan(self) -> int:
        """See `Half`."""
        return self._native.plan

    @property
    def rows(self) -> int:
        """See `Half`."""
        return self._native.rows

    @property
    def is_used_up(self) -> bool:
        """See `Half`."""
        return self._native.ring > RINGS_AT_MOST

    def begin(self, is_resident: bool) -> None:
        """See `Half`."""
        self.waited = 0.0

    def rest(self) -> None:
        """See `Half`: every step has waited for its answer."""

    def end(self, is_resident: bool) -> None:
        """See `Half`: every step raises its own errors."""

    def wait(self, signal: str, ring: int) -> None:
        """See `Half`."""
        started = perf_counter()
        self._native.wait(signal, ring)
        if signal in _OF_ROWS:
            self.waited += perf_counter() - started


class LaunchedHalf:
    """For a device half whose kernels are launched on a stream, and may be captured there. Implements `Half`.

    Ring values count from the one in the device's `inputs`, which is written when a window begins.
    """

    def __init__(
        self,
        native: HostHalf,
        device: DeviceCompute,
        tables: Sequence[torch.Tensor],
        slots: int,
        hidden: int,
        timeout: int,
        pcie: PcieShare | None = None,
    ) -> None:
        """`tables`: the slot of every expert, int32 on the device, of each layer.

        `timeout`: nanoseconds of a wait. `pcie`: what the device reads from the host.
        Raises `UserError` when the GPU cannot have the memory.
        """
        self._native, self._device, self._kernels = native, device, device.native.device
        self._base, self._tables, self._slots, self._hidden = device.inputs.ring, tables, slots, hidden
        self._timeout, self._share = timeout, 0 if pcie is None else pcie.device_address
        self._waited = torch.zeros(1, dtype=torch.int64, device=device.device)
        self._offset = 0
        self._registered = Registered(device.device, native.memory)
        self._plan = device.empty(self._kernels.PLAN_BYTES, dtype=torch.uint8)

    @property
    def plan(self) -> int:
        """See `Half`."""
        return self._plan.data_ptr()

    @property
    def rows(self) -> int:
        """See `Half`."""
        return self._native.rows

    @property
    def is_used_up(self) -> bool:
        """See `Half`."""
        return self._native.ring > RINGS_AT_MOST

    @property
    def waited(self) -> float:
        """See `Half`. Known where there is something to share."""
        return int(self._waited) * 1e-9

    def begin(self, is_resident: bool) -> None:
        """See `Half`."""
        self._offset = 0
        if not is_resident:
            ring = self._native.ring
            self._base.fill_(ring - (1 << 32) if ring >= 1 << 31 else ring)
            self._waited.zero_()
            self._native.begin_window()

    def rest(self) -> None:
        """See `Half`."""
        self._native.await_answers(len(self._tables))

    def end(self, is_resident: bool) -> None:
        """See `Half`."""
        self._native.end_window(0 if is_resident else len(self._tables))

    def make_plan(self, layer: int, tokens: int, top_k: int, all_resident: bool, ids: int, weights: int) -> None:
        """See `Half`."""
        table = self._tables[layer]
        sizes = tokens, top_k, table.numel(), self._slots, all_resident
        error = self._native.word("plan_error")
        # The host half follows the plan too, unless nothing is left for it.
        plan = self.plan if all_resident else self._native.plan
        where = table.data_ptr(), plan, error
        self._kernels.resident_plan(*sizes, ids, weights, *where, self._device.stream, self._share)
        if not all_resident:
            self._fetch_plan()

    def publish(self, layer: int, tokens: int, top_k: int, x: int, ids: int, weights: int) -> int:
        """See `Half`."""
        self._offset += 1
        native = self._native
        where = native.doorbell, native.word("seq"), self._base.data_ptr(), self._offset
        self._kernels.publish(layer, tokens, top_k, self._hidden, x, ids, weights, *where, self._device.stream)
        return self._offset

    def wait(self, signal: str, ring: int) -> None:
        """See `Half`."""
        native = self._native
        word, stamp, error = native.word(signal), native.stamp(signal), native.word("wait_error")
        number = native.number(signal) + 1
        waited = self._waited.data_ptr() if signal in _OF_ROWS and self._share else 0
        self._kernels.flag_wait(
            word, self._base.data_ptr(), ring, stamp, error, number, 0, self._timeout, self._device.stream, waited
        )
        if signal == "plan_ready":
            self._fetch_plan()

    def _fetch_plan(self) -> None:
        # By a kernel, word by word: a copy would wait for those of experts, which are large and go the same way.
        words, stream = self._kernels.PLAN_BYTES // 4, self._device.stream
        self._kernels.rows_copy(1, words, "all", 0.0, False, self._native.plan, 0, 0, self.plan, stream)

    def stop(self, seconds: float) -> bool:
        """See `Half`."""
        ended = self._native.stop(seconds)
        if ended:
            self._registered.close()
        return ended

    def report(self) -> str:
        """See `Half`."""
        return self._native.report()
