"""Copies of experts to slots: on a stream beside that of windows, or in place on a CPU."""

from __future__ import annotations

from collections.abc import Callable

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.streams import make_stream
from strata_runtime.hybrid.adapting import Expert
from strata_runtime.hybrid.host_experts import HostExperts
from strata_runtime.hybrid.residency import Residency
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.pool import PoolCompute


class SlotMover:
    """Implements `Mover`. `reach` keeps the stock where a GPU copies from without waiting."""

    def __init__(
        self, device: DeviceCompute, host: PoolCompute, stock: Stock, residency: Residency, reach: HostExperts
    ) -> None:
        self._reach = reach
        self._device, self._host, self._stock, self._residency = device, host, stock, residency
        is_gpu = device.device.type == "cuda"
        self._stream = make_stream(device.device, goes_first=False) if is_gpu else None

    def start(self, expert: Expert, slot: int) -> Callable[[], bool]:
        """See `Mover`."""
        if self._stream is None:
            self._bring(expert, slot)
            return lambda: True
        # The slot is nobody's since the last window, which has ended: nothing on another stream reads it.
        with torch.cuda.stream(self._stream):
            self._bring(expert, slot)
            ended = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ended.record()
        return ended.query

    def close(self) -> None:
        """See `Mover`."""
        if self._stream is not None:
            self._stream.synchronize()
        self._reach.close()

    def _bring(self, expert: Expert, slot: int) -> None:
        layer, number = expert
        parts = self._residency.layouts[layer].parts(self._residency.place(slot))
        self._stock.bring(self._host, self._device.uploader, layer, number, parts)
