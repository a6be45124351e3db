"""Where the time of a pass goes, and how many bytes of weights each part reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

import numpy as np
import torch

from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.executor import Executor, ExpertLayer
from strata_runtime.model import ModelInfo
from strata_runtime.native import Matrix, NativeModule, Pool

PartName = Literal["experts", "linear", "head", "rest"]

PART_TITLES: dict[PartName, str] = {
    "experts": "routed experts, waiting for them, and their sum",
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
    """A native module that takes the time of the calls that passes make; `around` does so for their experts."""

    def __init__(self, native: NativeModule, info: ModelInfo, clock: Callable[[], float]) -> None:
        self._native, self._info, self._clock = native, info, clock
        self._seconds: dict[PartName, float] = dict.fromkeys(PART_TITLES, 0.0)
        self._touched = self._held = 0

    def __getattr__(self, name: str) -> Any:
        """Return what is not recorded as it is."""
        return getattr(self._native, name)

    @contextmanager
    def timing(self, part: PartName) -> Iterator[None]:
        """Count what the body takes as this part's."""
        started = self._clock()
        yield
        self._seconds[part] += self._clock() - started

    def linear(self, pool: Pool, matrix: Matrix, tokens: int, x: int, out: int) -> None:
        """See `NativeModule`."""
        with self.timing("head" if matrix.rows == self._info.vocab_size else "linear"):
            self._native.linear(pool, matrix, tokens, x, out)

    def around(self, executor: Executor) -> Executor:
        """Return an executor that takes the time of another one, and counts the experts that its layers touch."""
        return _Timed(executor, self)

    def touch(self, layer: ExpertLayer, ids: torch.Tensor, weights: torch.Tensor) -> None:
        """Count a layer's experts that have an entry, both [tokens, top_k]: those left out have id -1 or weight 0."""
        self._touched += np.unique(ids[(ids >= 0) & (weights != 0)].numpy()).size
        self._held += layer.experts.count

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


class _Timed:
    """Another executor, its time and its experts told to a recorder. What it waits for is its time too."""

    def __init__(self, executor: Executor, recorder: Recorder) -> None:
        self.laps = executor.laps
        self._executor, self._recorder = executor, recorder

    @property
    def key(self) -> Hashable:
        return self._executor.key

    def rest(self) -> None:
        self._executor.rest()

    def passing(self, tokens: int) -> AbstractContextManager[None]:
        return self._executor.passing(tokens)

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        with self._recorder.timing("experts"):
            self._executor.begin(layer, buffers, weights)
        self._recorder.touch(layer, buffers.expert_ids, weights)

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        with self._recorder.timing("experts"):
            self._executor.finish(layer, buffers, weights)

    def join_late(self, buffers: Buffers) -> None:
        with self._recorder.timing("experts"):
            self._executor.join_late(buffers)

    def close(self) -> None:
        self._executor.close()
