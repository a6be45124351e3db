"""Memory of the host on its way to a device, beside what the device computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

from strata_runtime.device.streams import make_stream, sleeping_event

_BUFFERS = 4
_BUFFER_BYTES = 32 << 20
_AT_ONCE = 8 << 20
"""Bytes of one copy: a window's own few bytes may have to wait for as long as that takes, some 0.15 ms."""

Piece = tuple[torch.Tensor, torch.Tensor]
"""From and to, uint8 of the same size."""


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Registered memory, and the end of the last copy out of it."""

    memory: torch.Tensor
    ended: torch.cuda.Event


class Feed:
    """A stream for copies, and registered buffers that they go through in turn. For one thread at a time.

    On a CPU copies are made in place.
    """

    def __init__(self, device: torch.device, threads: int) -> None:
        """`threads`: that copy to buffers."""
        self._stream = make_stream(device, goes_first=False) if device.type == "cuda" else None
        self._threads = threads
        self._fillers: ThreadPoolExecutor | None = None
        self._buffers: list[_Buffer] = []
        self._turn = 0

    def after(self, event: torch.cuda.Event | None) -> None:
        """Let copies wait for an event of another stream."""
        if self._stream is not None and event is not None:
            self._stream.wait_event(event)

    def mark(self) -> torch.cuda.Event | None:
        """Return an event behind all copies so far; None where they have been made."""
        return None if self._stream is None else self._stream.record_event(sleeping_event())

    @contextmanager
    def on_its_stream(self) -> Iterator[None]:
        """Make what is launched here wait its turn among the copies."""
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield

    def copy(self, pieces: Iterable[Piece], *, is_registered: bool) -> None:
        """Begin to copy. `is_registered`: the device reads what pieces are copied from."""
        if self._stream is None or is_registered:
            self._send(pieces)
            return
        for filling in _fillings(pieces, _BUFFER_BYTES):
            self._through_a_buffer(filling)

    def close(self) -> None:
        """End its threads. Idempotent."""
        if self._fillers is not None:
            self._fillers.shutdown()

    def _through_a_buffer(self, filling: Sequence[Piece]) -> None:
        if self._fillers is None:
            self._fillers = ThreadPoolExecutor(self._threads)
        buffer = self._next()
        buffer.ended.synchronize()
        staged, at = [], 0
        for source, to in filling:
            staged.append((source, buffer.memory[at : at + source.numel()], to))
            at += source.numel()
        fills = [(source, place) for source, place, _ in staged]
        list(self._fillers.map(_fill, _fillings(fills, -(-at // self._threads))))
        self._send((place, to) for _, place, to in staged)
        with self.on_its_stream():
            buffer.ended.record()

    def _send(self, pieces: Iterable[Piece]) -> None:
        with self.on_its_stream():
            for sending in _fillings(pieces, _AT_ONCE):
                for source, to in sending:
                    to.copy_(source, non_blocking=True)

    def _next(self) -> _Buffer:
        turn, self._turn = self._turn, (self._turn + 1) % _BUFFERS
        if turn == len(self._buffers):
            self._buffers.append(_Buffer(_pinned(_BUFFER_BYTES), sleeping_event()))
        return self._buffers[turn]


def _pinned(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, pin_memory=True)


def _fillings(pieces: Iterable[Piece], size: int) -> Iterator[list[Piece]]:
    """Cut pieces so that they come in lists of `size` bytes each, the last one of what is left."""
    filling: list[Piece] = []
    room = size
    for source, to in pieces:
        first = 0
        while first < source.numel():
            part = slice(first, min(first + room, source.numel()))
            filling.append((source[part], to[part]))
            room -= part.stop - first
            first = part.stop
            if room == 0:
                yield filling
                filling, room = [], size
    if filling:
        yield filling


@torch.inference_mode()
def _fill(pieces: Iterable[Piece]) -> None:
    for source, to in pieces:
        to.copy_(source)
