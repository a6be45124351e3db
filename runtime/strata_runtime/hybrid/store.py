"""Experts where kernels of prompts read them: in slots, or copied from the host's memory ahead of their use."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.feed import Feed
from strata_runtime.device.prompts import Matrices, Triple
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.hybrid.residency import Residency, SlotLayout
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.experts import expert_scales
from strata_runtime.layers.pool import PoolCompute


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Neighbouring experts of a layer, and those of them that have no slot."""

    layer: int
    experts: range
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Staged:
    """Experts on their way to `memory`, each at its number among the wanted ones; `there` ends with the last copy."""

    wanted: _Wanted
    memory: torch.Tensor
    there: Future[torch.cuda.Event | None]


class SlotStore:
    """Implements `ExpertStore`. For one thread; another one of its own copies, beside what the device computes.

    Experts without a slot go to two places in turn: while those of one are computed with, those that are expected next
    go to the other one. Who has a slot is looked at when they are asked for; what was expected otherwise is left.
    """

    def __init__(
        self, device: DeviceCompute, host: PoolCompute, residency: Residency, stock: Stock, *, is_registered: bool
    ) -> None:
        """`is_registered`: the device reads the stock where it is."""
        self._device, self._host, self._residency, self._stock = device, host, residency, stock
        self._is_registered = is_registered
        uploader, layers = device.uploader, stock.layers
        self._layouts = [SlotLayout.of(uploader, layer, stock.wanted, at) for at, layer in enumerate(layers)]
        self._scales = [
            [
                torch.tensor(expert_scales(layer.tensors, role) or [1.0] * residency.table.shape[1])
                for role in EXPERT_ROLES
            ]
            for layer in layers
        ]
        self._feed = Feed(device.device, uploader.threads)
        self._thread: ThreadPoolExecutor | None = None
        self._staged: list[torch.Tensor] = []
        self._turn = 0
        self._together = 0  # most experts that were asked for at a time
        self._expected: _Staged | None = None

    def on_device(self, layer: int, experts: range) -> Triple:
        """See `ExpertStore`."""
        residency, layout = self._residency, self._layouts[layer]
        slots = residency.table[layer, experts.start : experts.stop]
        begins = residency.address + residency.stride * torch.from_numpy(slots.astype("int64"))
        wanted = self._wanted(layer, experts)
        if wanted.missing:
            staged, self._expected = self._expected, None
            if staged is None or staged.wanted != wanted:
                staged = self._begin(wanted)
            for number in wanted.missing:
                begins[number] = staged.memory.data_ptr() + number * layout.bytes
            there = staged.there.result()
            if there is not None:
                torch.cuda.current_stream(self._device.device).wait_event(there)
        self._expect(layer, experts)
        sizes = self._sizes(layer)
        gate, up, down = (
            Matrices(
                form,
                *shape,
                (begins + offset).to(self._device.device),
                scales[experts.start : experts.stop].to(self._device.device),
            )
            for form, shape, offset, scales in zip(
                (layout.gate_format, layout.gate_format, layout.down_format),
                sizes,
                layout.offsets,
                self._scales[layer],
                strict=True,
            )
        )
        return gate, up, down

    @contextmanager
    def passing(self) -> Iterator[None]:
        """See `ExpertStore`."""
        with self._residency.read():
            try:
                yield
            finally:
                self._settle()

    def _settle(self) -> None:
        expected, self._expected = self._expected, None
        there = None if expected is None else expected.there.result()
        if there is not None:
            there.synchronize()

    def close(self) -> None:
        """See `ExpertStore`."""
        self._settle()
        if self._thread is not None:
            self._thread.shutdown()

    def _wanted(self, layer: int, experts: range) -> _Wanted:
        slots = self._residency.table[layer, experts.start : experts.stop]
        return _Wanted(layer, experts, tuple(number for number, slot in enumerate(slots) if slot < 0))

    def _expect(self, layer: int, experts: range) -> None:
        """Begin with what is asked for next when every expert of every layer is."""
        count, self._together = self._residency.table.shape[1], max(self._together, len(experts))
        layer, first = (layer, experts.stop) if experts.stop < count else (layer + 1, 0)
        if layer < len(self._layouts) and self._expected is None:
            wanted = self._wanted(layer, range(first, min(first + self._together, count)))
            self._expected = self._begin(wanted) if wanted.missing else None

    def _begin(self, wanted: _Wanted) -> _Staged:
        memory = self._stage(len(wanted.experts), max(layout.bytes for layout in self._layouts))
        # All that reads this place has been launched: it was asked for before the last call.
        where = self._device.device
        read = torch.cuda.current_stream(where).record_event() if where.type == "cuda" else None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        return _Staged(wanted, memory, self._thread.submit(self._bring, wanted, memory, read))

    @torch.inference_mode()
    def _bring(self, wanted: _Wanted, memory: torch.Tensor, read: torch.cuda.Event | None) -> torch.cuda.Event | None:
        layout, uploader, feed = self._layouts[wanted.layer], self._device.uploader, self._feed
        pieces: list[tuple[torch.Tensor, torch.Tensor]] = []
        for number in wanted.missing:
            expert, to = wanted.experts[number], memory[number * layout.bytes :]
            found = self._stock.pieces(uploader, layout, wanted.layer, expert, to)
            if found is not None:
                pieces += found
                continue
            if read is not None:
                read.synchronize()
            self._stock.bring(self._host, uploader, layout, wanted.layer, expert, to)
        feed.after(read)
        feed.copy(pieces, is_registered=self._is_registered)
        return feed.mark()

    def _sizes(self, layer: int) -> list[tuple[int, int]]:
        shapes = (self._stock.layers[layer].experts[role][0].shape for role in EXPERT_ROLES)
        return [(shape[0], shape[1]) for shape in shapes]

    def _stage(self, experts: int, size: int) -> torch.Tensor:
        """Return memory of the device that was not used for the last call."""
        room = experts * size
        if not self._staged or self._staged[0].numel() < room:
            self._staged = [self._device.uploader.room(room) for _ in range(2)]
        self._turn = 1 - self._turn
        return self._staged[self._turn]
