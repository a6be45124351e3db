"""Where the time of a pass goes, and how many bytes of weights each part reads."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np

from strata_runtime.model import ModelInfo
from strata_runtime.native import Experts, Matrix, NativeModule, Pool

PartName = Literal["experts", "linear", "head", "rest"]

PART_TITLES: dict[PartName, str] = {
    "experts": "routed experts and their sum",
    "linear": "other matrices of the layers",
    "head": "output matrix",
    "rest": "attention over the cache, norms, choice of experts, Python",
}


@dataclass(frozen=True, slots=True)
class Part:
    """One part's seconds and bytes of weights, each byte counted once per pass; 0 bytes where it has no weights."""

    name: PartName
    seconds: float
    bytes: float


Parts = tuple[Part, ...]
"""All parts, in the order of `PART_TITLES`; their seconds add up to the whole."""


def middle(samples: Sequence[Parts]) -> Parts:
    """Return the median of every part over one or more samples."""
    return tuple(
        Part(parts[0].name, median(part.seconds for part in parts), median(part.bytes for part in parts))
        for parts in zip(*samples, strict=True)
    )


class Recorder:
    """A native module that takes the time of the calls that passes make, and counts the experts that they touch."""

    def __init__(self, native: NativeModule, info: ModelInfo, clock: Callable[[], float]) -> None:
        self._native, self._info, self._clock = native, info, clock
        self._seconds: dict[PartName, float] = dict.fromkeys(PART_TITLES, 0.0)
        self._touched = self._held = 0

    def __getattr__(self, name: str) -> Any:
        """Return what is not recorded as it is."""
        return getattr(self._native, name)

    @contextmanager
    def _timing(self, part: PartName) -> Iterator[None]:
        started = self._clock()
        yield
        self._seconds[part] += self._clock() - started

    def linear(self, pool: Pool, matrix: Matrix, tokens: int, x: int, out: int) -> None:
        """See `NativeModule`."""
        with self._timing("head" if matrix.rows == self._info.vocab_size else "linear"):
            self._native.linear(pool, matrix, tokens, x, out)

    def experts(self, pool: Pool, layer: Experts, tokens: int, top_k: int, x: int, ids: int, out: int) -> None:
        """See `NativeModule`."""
        with self._timing("experts"):
            self._native.experts(pool, layer, tokens, top_k, x, ids, out)
        chosen = np.ctypeslib.as_array((ctypes.c_int32 * (tokens * top_k)).from_address(ids))
        self._touched += np.unique(chosen[chosen >= 0]).size
        self._held += layer.count

    def combine(self, tokens: int, top_k: int, hidden: int, rows: int, weights: int, out: int) -> None:
        """See `NativeModule`."""
        with self._timing("experts"):
            self._native.combine(tokens, top_k, hidden, rows, weights, out)

    def parts(self, seconds: float, passes: int, units: int) -> Parts:
        """Split `seconds` of `passes` passes; return what one of `units` equal units takes."""
        known = sum(self._seconds.values())
        touched = self._touched / self._held if self._held else 0.0
        read = {
            "experts": passes * self._info.expert_bytes * touched,
            "linear": passes * self._info.dense_bytes,
            "head": passes * self._info.head_bytes,
        }
        taken = {**self._seconds, "rest": seconds - known}
        return tuple(Part(name, taken[name] / units, read.get(name, 0) / units) for name in PART_TITLES)
