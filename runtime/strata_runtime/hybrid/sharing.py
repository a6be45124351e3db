"""Which experts have slots at first, and what moves them later, as the knobs have it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.hybrid.adapting import Adapting
from strata_runtime.hybrid.balance import Balance
from strata_runtime.hybrid.host_experts import HostExperts
from strata_runtime.hybrid.measuring import measured_share
from strata_runtime.hybrid.mover import SlotMover
from strata_runtime.hybrid.pcie import PcieShare
from strata_runtime.hybrid.placement import Placement, by_layer, by_use, read_profile
from strata_runtime.hybrid.residency import Residency, slot_bytes
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.pool import PoolCompute

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


@dataclass(frozen=True, slots=True)
class Shared:
    """Slots with experts, and what becomes of the others.

    `adapting`: moves experts between windows, None where they stay. `pcie`: what the device reads from the host, None
    for nothing. `notes`: lines for the start.
    """

    residency: Residency
    adapting: Adapting | None
    pcie: PcieShare | None
    notes: tuple[str, ...]

    @property
    def is_registered(self) -> bool:
        """Whether a GPU reads the host's experts where they are."""
        return self.adapting is not None or self.pcie is not None


def share_experts(
    settings: Settings, host: PoolCompute, device: DeviceCompute, stock: Stock, experts: int, slots: int | None
) -> Shared:
    """Fill slots with experts, of which each layer has `experts`.

    slots: how many there are to be, None for what `expert.cache` says. Raises `UserError`.
    """
    placed, notes = _placement(settings, len(stock.layers), experts, slots)
    total, expert = len(stock.layers) * experts, settings.expert
    frac = 0.0 if len(placed) == total else expert.pcie_frac
    if frac < 0 and settings.engine.repeatable:
        frac = 0.0
        notes.append("expert.pcie_frac is 0 instead of auto, which follows times (engine.repeatable)")
    adapts = expert.adapt and 0 < len(placed) < total
    reach = HostExperts.of(stock, device) if adapts or frac else None
    if reach is None and (adapts or frac):
        notes.append(
            "expert.adapt and expert.pcie_frac are off: a GPU takes them when all experts are arranged in memory "
            "(engine.weight_layout compute)"
        )
    size = slot_bytes(device.uploader, stock.layers, stock.wanted) if adapts else 1
    spare = min(max(1, expert.adapt_bytes // size), len(placed), total - len(placed)) if adapts and reach else 0
    residency = Residency(host, device.uploader, stock.layers, stock.wanted, placed, spare)
    if reach is None:
        return Shared(residency, None, None, tuple(notes))
    adapting = Adapting(residency, SlotMover(device, host, stock, residency, reach)) if spare else None
    pcie = None
    if frac:
        start = measured_share(device, host, stock) if frac < 0 else frac
        pcie = PcieShare(device, host, stock, reach, start, Balance(start) if frac < 0 else None)
    return Shared(residency, adapting, pcie, tuple(notes))


def _placement(settings: Settings, layers: int, experts: int, slots: int | None) -> tuple[Placement, list[str]]:
    wanted, total = max(0, settings.expert.cache), layers * experts
    notes = [f"expert.cache is {wanted}: all of the model's {total} experts have slots"] if wanted > total else []
    slots = min(wanted, total) if slots is None else slots
    if settings.expert.profile is None:
        return by_layer(slots, layers, experts), notes
    profile = read_profile(Path(settings.expert.profile), layers, experts)
    return by_use(slots, profile.counts), notes
