"""The host's experts where a device reads them by itself."""

from __future__ import annotations

from collections.abc import Sequence
from mmap import PAGESIZE

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.registered import Registered
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.placing import Place


class HostExperts:
    """Holds what it takes for a device to read all experts of a stock; on a CPU that is nothing."""

    def __init__(self, device: DeviceCompute, places: Sequence[Place]) -> None:
        """Raises `UserError` when a GPU cannot have the memory."""
        spans = _spans(places) if device.device.type == "cuda" else []
        self._registered = Registered(device.device, spans)

    @staticmethod
    def of(stock: Stock, device: DeviceCompute) -> HostExperts | None:
        """Reach for the experts of a stock; None where a GPU finds them arranged otherwise than it reads them."""
        if device.device.type == "cuda" and not stock.is_arranged(device.uploader):
            return None
        return HostExperts(device, [place for loaded in stock.loaded for part in loaded.places for place in part])

    def close(self) -> None:
        """Let go of the memory. Idempotent."""
        self._registered.close()


def _spans(places: Sequence[Place]) -> list[tuple[int, int]]:
    """Return address and bytes of the whole pages around the places of each owner."""
    spans: dict[int, tuple[int, int]] = {}
    for place in places:
        first, last = spans.get(id(place.owner), (place.address, 0))
        spans[id(place.owner)] = min(first, place.address), max(last, place.address + place.bytes)
    whole = [(first // PAGESIZE * PAGESIZE, -(-last // PAGESIZE) * PAGESIZE) for first, last in spans.values()]
    return [(first, last - first) for first, last in whole]
