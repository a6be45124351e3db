"""How many experts the memory of a device takes."""

from __future__ import annotations

from collections.abc import Iterable

from strata_runtime.checkpoint.stored import Stored
from strata_runtime.device.weights import Uploader


def dense_bytes(uploader: Uploader, matrices: Iterable[Stored], table: Stored) -> int:
    """Return what matrices take on a device, and the embedding `table` as it is stored."""
    sizes = (uploader.bytes(each.form.name, each.shape) for each in matrices if len(each.shape) == 2)
    return sum(sizes) + len(table.data)


def slots_that_fit(free: int, taken: int, reserve: int, stride: int, total: int) -> int:
    """Return how many of `total` slots of `stride` bytes fit into `free` bytes beside `taken` and `reserve`."""
    return max(0, min(total, (free - taken - reserve) // max(1, stride)))


def slots_beside_prompts(free: int, taken: int, reserve: int, stride: int, total: int, staging: int) -> int:
    """As `slots_that_fit`; where not all fit, beside `staging` bytes for those that are copied for prompts."""
    slots = slots_that_fit(free, taken, reserve, stride, total)
    return slots if slots == total else slots_that_fit(free, taken + staging, reserve, stride, total)
