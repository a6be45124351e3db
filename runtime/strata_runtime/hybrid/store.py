"""Experts where kernels of prompts read them: in slots, or copied from the host's memory ahead of their use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.feed import Feed
from strata_runtime.device.prompts import Matrices, Triple
from strata_runtime.device.streams import sleeping_event
from strata_runtime.device.weights import memory_at
from strata_runtime.families import EXPERT_ROLES
from strata_runtime.hybrid.residency import Residency, SlotLayout
from strata_runtime.hybrid.stock import Stock
from strata_runtime.layers.experts import expert_scales
from strata_runtime.layers.placing import Place
from strata_runtime.layers.pool import PoolCompute


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Neighbouring experts of a layer, and those of them that have no slot."""

    layer: int
    experts: range
    missing: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Area:
    """Memory of a device that experts of a layer are copied to: all gates, all ups, all downs, each at its number."""

    memory: torch.Tensor
    layout: SlotLayout
    experts: int

    @property
    def firsts(self) -> list[int]:
        """Where in `memory` the first gate, up and down begin."""
        return [self.experts * offset for offset in self.layout.offsets]

    def parts(self, number: int) -> list[torch.Tensor]:
        """Return the memory of an expert's gate, up and down."""
        begins = [first + number * size for first, size in zip(self.firsts, self.layout.sizes, strict=True)]
        return [self.memory[at : at + size] for at, size in zip(begins, self.layout.sizes, strict=True)]


@dataclass(frozen=True, slots=True)
class _Staged:
    """Experts on their way to an area, each at its number among the wanted ones; `there` ends with the last copy."""

    wanted: _Wanted
    area: _Area
    there: Future[torch.cuda.Event | None]


class SlotStore:
    """Implements `ExpertStore`. For one thread; another one of its own copies, beside what the device computes.

    Experts without a slot go to two areas in turn: while those of one are computed with, those that are expected next
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
        experts = residency.table.shape[1]
        self._scales = [
            [
                torch.tensor(expert_scales(layer.tensors, role) or [1.0] * experts).to(device.device)
                for role in EXPERT_ROLES
            ]
            for layer in layers
        ]
        self._numbers = torch.arange(experts, device=device.device)
        self._feed = Feed(device.device, uploader.threads)
        self._thread: ThreadPoolExecutor | None = None
        self._staged: list[torch.Tensor] = []
        self._turn = 0
        self._together = 0  # most experts that were asked for at a time
        self._expected: _Staged | None = None

    def on_device(self, layer: int, experts: range) -> Triple:
        """See `ExpertStore`. Waits for the copying thread at most: what the device was given before may still run."""
        residency, layout = self._residency, self._layouts[layer]
        slots = residency.tables[layer][experts.start : experts.stop].to(torch.int64)
        begins = residency.address + residency.stride * slots
        addresses = [begins + offset for offset in layout.offsets]
        wanted = self._wanted(layer, experts)
        if wanted.missing:
            area = self._staged_for(wanted)
            memory, numbers = area.memory.data_ptr(), self._numbers[: len(experts)]
            own = [memory + first + size * numbers for first, size in zip(area.firsts, layout.sizes, strict=True)]
            addresses = [torch.where(slots < 0, there, at) for there, at in zip(own, addresses, strict=True)]
        self._expect(layer, experts)
        gate, up, down = (
            Matrices(form, *shape, at, scales[experts.start : experts.stop])
            for form, shape, at, scales in zip(
                (layout.gate_format, layout.gate_format, layout.down_format),
                self._sizes(layer),
                addresses,
                self._scales[layer],
                strict=True,
            )
        )
        return gate, up, down

    def _staged_for(self, wanted: _Wanted) -> _Area:
        """Return where experts are for what is launched from now on."""
        staged, self._expected = self._expected, None
        if staged is None or staged.wanted != wanted:
            staged = self._begin(wanted)
        there = staged.there.result()
        if there is not None:
            torch.cuda.current_stream(self._device.device).wait_event(there)
        return staged.area

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
        self._feed.close()

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
        count = len(wanted.experts)
        memory = self._stage(count, max(layout.bytes for layout in self._layouts))
        area = _Area(memory, self._layouts[wanted.layer], count)
        # All that reads this area has been launched: it was asked for before the last call.
        where = self._device.device
        read = torch.cuda.current_stream(where).record_event(sleeping_event()) if where.type == "cuda" else None
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1)
        return _Staged(wanted, area, self._thread.submit(self._bring, wanted, area, read))

    @torch.inference_mode()
    def _bring(self, wanted: _Wanted, area: _Area, read: torch.cuda.Event | None) -> torch.cuda.Event | None:
        uploader, feed = self._device.uploader, self._feed
        spans: list[_Span] = []
        for number in wanted.missing:
            expert = wanted.experts[number]
            held = self._stock.arranged(uploader, wanted.layer, expert)
            if held is not None:
                spans += _spans(held, area, number)
                continue
            if read is not None:
                read.synchronize()
            self._stock.bring(self._host, uploader, wanted.layer, expert, area.parts(number))
        feed.after(read)
        pieces = [
            (memory_at(span.address, span.bytes), area.memory[span.at : span.at + span.bytes])
            for span in _joined(spans)
        ]
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


@dataclass(frozen=True, slots=True)
class _Span:
    """Bytes of the host, and where in an area they go."""

    at: int
    address: int
    bytes: int


def _spans(held: Sequence[Place], area: _Area, number: int) -> list[_Span]:
    pairs = zip(held, area.firsts, area.layout.sizes, strict=True)
    return [_Span(first + number * size, each.address, each.bytes) for each, first, size in pairs]


def _joined(spans: Iterable[_Span]) -> list[_Span]:
    """Make one span of those that are neighbours on both sides: experts of a layer, matrix by matrix, mostly are."""
    joined: list[_Span] = []
    for span in sorted(spans, key=lambda each: each.at):
        last = joined[-1] if joined else None
        is_next = last is not None and span.at - last.at == span.address - last.address == last.bytes
        if last is not None and is_next:
            joined[-1] = _Span(last.at, last.address, last.bytes + span.bytes)
        else:
            joined.append(span)
    return joined
