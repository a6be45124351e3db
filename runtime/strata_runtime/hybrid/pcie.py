"""The experts without slots that a device reads from the host's memory by itself."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.hybrid.balance import Balance
from strata_runtime.hybrid.host_experts import HostExperts
from strata_runtime.hybrid.reading import ExpertMemory
from strata_runtime.hybrid.residency import SlotLayout
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.experts import expert_scales, in_format
from strata_runtime.layers.placing import Place
from strata_runtime.layers.pool import PoolCompute

_WHOLE = 1024  # parts of a share, as plans count them


class PcieShare:
    """How many of a layer's missing experts the device reads itself, and where. For one thread.

    `host_address`, `device_address`: the share, an int32 in parts of 1024, for plans made here and there.
    """

    def __init__(
        self,
        device: DeviceCompute,
        host: PoolCompute,
        stock: Stock,
        reach: HostExperts,
        share: float,
        balance: Balance | None = None,
    ) -> None:
        """`balance`: changes the share between windows; None leaves it as it is."""
        self._reach, self._balance = reach, balance
        self._parts: NDArray[np.int32] = np.zeros(1, np.int32)
        self._on_device = torch.from_numpy(self._parts).to(device.device)
        self._kept: list[torch.Tensor] = []
        self._is_arranged = stock.is_arranged(device.uploader)
        self._layers = [self._memory(device, host, stock, number) for number in range(len(stock.layers))]
        self.share = share

    @property
    def share(self) -> float:
        """The share of the next window, from 0 to 1."""
        return float(self._parts[0]) / _WHOLE

    @share.setter
    def share(self, share: float) -> None:
        self._parts[0] = round(share * _WHOLE)
        if self._on_device.device.type != "cpu":
            self._on_device.copy_(torch.from_numpy(self._parts))

    @property
    def host_address(self) -> int:
        """See above."""
        return int(self._parts.ctypes.data)

    @property
    def device_address(self) -> int:
        """See above."""
        return self._on_device.data_ptr()

    @property
    def follows_times(self) -> bool:
        """Whether `after_window` changes anything."""
        return self._balance is not None

    def memory(self, layer: int) -> ExpertMemory:
        """Return where a layer's experts are read."""
        return self._layers[layer]

    def after_window(self, waited: float, seconds: float) -> None:
        """Take note of a window of so many seconds, for `waited` of which the device waited for the CPU's rows."""
        if self._balance is not None:
            self.share = self._balance.follow(waited, seconds)

    def close(self) -> None:
        """Let go of the host's memory. Idempotent."""
        self._reach.close()

    def _memory(self, device: DeviceCompute, host: PoolCompute, stock: Stock, number: int) -> ExpertMemory:
        layer, uploader = stock.layers[number], device.uploader
        layout = SlotLayout.of(uploader, layer, stock.wanted, number)
        gate, up, down = (_evenly(places) for places in stock.loaded[number].places)
        if gate is None or up is None or down is None or not self._is_arranged:
            gate, up, down = (
                self._copied(device, host, stock, number, role, size)
                for role, size in zip(EXPERT_ROLES, layout.sizes, strict=True)
            )
        scales = [self._scales(device, expert_scales(layer.tensors, role)) for role in EXPERT_ROLES]
        formats = layout.gate_format, layout.down_format
        return ExpertMemory(*formats, *gate, up[0] - gate[0], *down, *scales)

    def _copied(
        self, device: DeviceCompute, host: PoolCompute, stock: Stock, number: int, role: str, size: int
    ) -> tuple[int, int]:
        """Arrange copies: for a CPU, where kernels run inline on any layout that its pool has."""
        matrices = stock.layers[number].experts[role]
        memory = device.uploader.room(size * len(matrices))
        kept = [matrix if stock.wanted is None else in_format(host, matrix, stock.wanted) for matrix in matrices]
        device.uploader.fill((matrix, memory[at * size :]) for at, matrix in enumerate(kept))
        self._kept.append(memory)
        return memory.data_ptr(), size

    def _scales(self, device: DeviceCompute, known: Sequence[float]) -> int:
        if not known:
            return 0
        self._kept.append(torch.tensor(known, dtype=torch.float32).to(device.device))
        return self._kept[-1].data_ptr()


def _evenly(places: Sequence[Place]) -> tuple[int, int] | None:
    """Return address and stride of matrices that lie at equal distances; None where they do not."""
    first = places[0].address
    stride = places[1].address - first if len(places) > 1 else places[0].bytes
    even = all(place.address == first + at * stride for at, place in enumerate(places))
    return (first, stride) if even and stride > 0 else None
