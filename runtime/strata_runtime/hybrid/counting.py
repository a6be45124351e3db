"""Counts which experts are chosen."""

from __future__ import annotations

from collections.abc import Hashable
from contextlib import AbstractContextManager

import numpy as np
import torch

from strata_runtime.hybrid.placement import Counts
from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.executor import Executor, ExpertLayer


class Counting:
    """Another executor, and the choices of its layers added to `counts`."""

    def __init__(self, executor: Executor, counts: Counts) -> None:
        self.laps = executor.laps
        self._executor, self._counts = executor, counts

    @property
    def key(self) -> Hashable:
        """See `Executor`."""
        return self._executor.key

    def rest(self) -> None:
        """See `Executor`."""
        self._executor.rest()

    def passing(self, tokens: int) -> AbstractContextManager[None]:
        """See `Executor`."""
        return self._executor.passing(tokens)

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        chosen = buffers.expert_ids.cpu().numpy().reshape(-1)
        self._counts[layer.number] += np.bincount(chosen, minlength=self._counts.shape[1])
        self._executor.begin(layer, buffers, weights)

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        self._executor.finish(layer, buffers, weights)

    def join_late(self, buffers: Buffers) -> None:
        """See `Executor`."""
        self._executor.join_late(buffers)

    def close(self) -> None:
        """See `Executor`."""
        self._executor.close()
