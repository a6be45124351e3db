"""Streams of a GPU, and waits for them that leave the core to others.

Torch's own waits spin, which is the shortest wait where nobody needs the core. On one that a worker of the pool is
pinned to, a window takes several times as long.
"""

from __future__ import annotations

import torch


def make_stream(device: torch.device, *, goes_first: bool) -> torch.cuda.Stream:
    """Make a stream of the highest or the lowest priority."""
    lowest, highest = torch.cuda.Stream.priority_range()  # type: ignore[call-arg]
    return torch.cuda.Stream(device, priority=highest if goes_first else lowest)  # type: ignore[no-untyped-call]


def sleeping_event() -> torch.cuda.Event:
    """Make an event that a thread waits for asleep."""
    return torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]


def sleep_until_done(device: torch.device) -> None:
    """Wait, asleep, until everything that was given to the calling thread's stream is done."""
    event = sleeping_event()
    event.record(torch.cuda.current_stream(device))
    event.synchronize()
