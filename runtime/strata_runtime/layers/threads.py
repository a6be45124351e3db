"""Who may use the cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def cores_for_the_pool() -> Iterator[None]:
    """Keep torch to the calling thread for a while.

    Its OpenMP threads spin between operations, on the very cores that the pool's workers are pinned to: two torch
    threads beside a pool of two made a token of a small model up to twenty times slower on a busy machine. They spin
    for milliseconds, so one operation outside, such as a sum over all logits, slows the whole next pass by a seventh.
    And they do not survive fork(): in the child of a process that had such threads, an operation that wants them waits
    for ever.
    """
    before = torch.get_num_threads()
    if before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
