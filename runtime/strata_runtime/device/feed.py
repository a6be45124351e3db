"""Memory of the host on its way to a device, beside what the device computes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import torch

_BUFFERS = 4
_BUFFER_BYTES = 32 << 20


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
        self._stream = _stream(device) if device.type == "cuda" else None
        self._threads = threads
        self._buffers: list[_Buffer] = []
        self._turn = 0

    def after(self, event: torch.cuda.Event | None) -> None:
        """Let copies wait for an event of another stream."""
        if self._stream is not None and event is not None:
            self._stream.wait_event(event)

    def mark(self) -> torch.cuda.Event | None:
        """Return an event behind all copies so far; None where they have been made."""
        return None if self._stream is None else self._stream.record_event()

    @contextmanager
    def on_its_stream(self) -> Iterator[None]:
        """Make what is launched here wait its turn among the copies."""
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield

    def copy(self, pieces: Iterable[tuple[torch.Tensor, torch.Tensor]], *, is_registered: bool) -> None:
        """Begin to copy pieces, uint8 (from, to). `is_registered`: the device reads what they are copied from."""
        if self._stream is None or is_registered:
            with self.on_its_stream():
                for source, to in pieces:
                    to.copy_(source, non_blocking=True)
            return
        with ThreadPoolExecutor(self._threads) as pool:
            for source, to in pieces:
                for first in range(0, source.numel(), _BUFFER_BYTES):
                    part = slice(first, min(first + _BUFFER_BYTES, source.numel()))
                    self._through_a_buffer(pool, source[part], to[part])

    def _through_a_buffer(self, pool: ThreadPoolExecutor, source: torch.Tensor, to: torch.Tensor) -> None:
        buffer = self._next()
        buffer.ended.synchronize()
        filled = buffer.memory[: source.numel()]
        step = -(-source.numel() // self._threads)
        parts = [slice(first, first + step) for first in range(0, source.numel(), step)]
        list(pool.map(lambda part: _fill(filled[part], source[part]), parts))
        with self.on_its_stream():
            to.copy_(filled, non_blocking=True)
            buffer.ended.record()

    def _next(self) -> _Buffer:
        turn, self._turn = self._turn, (self._turn + 1) % _BUFFERS
        if turn == len(self._buffers):
            memory = torch.empty(_BUFFER_BYTES, dtype=torch.uint8, pin_memory=True)
            self._buffers.append(_Buffer(memory, torch.cuda.Event()))  # type: ignore[no-untyped-call]
        return self._buffers[turn]


@torch.inference_mode()
def _fill(to: torch.Tensor, source: torch.Tensor) -> None:
    to.copy_(source)


def _stream(device: torch.device) -> torch.cuda.Stream:
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
