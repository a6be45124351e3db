"""How a layer's routed experts come to be computed: what layers ask for, and the executor that asks the pool."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

import torch

from strata_runtime.layers.buffers import Buffers
from strata_runtime.layers.pool import PoolCompute
from strata_runtime.native import Experts
from strata_runtime.phases import Laps, NoLaps


@dataclass(frozen=True, slots=True)
class ExpertLayer:
    """One layer's routed experts; `number` counts such layers from 0, and `is_last` is the last of them."""

    experts: Experts
    number: int
    is_last: bool


class Trim(Protocol):
    """Leaves out entries of a window, in place: `buffers.expert_ids`, and `weights` [tokens, top_k]."""

    def __call__(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None: ...  # noqa: D102


class Executor(Protocol):
    """Computes the routed experts of every layer of a pass.

    `laps` takes the phases of a pass. Between `begin` and `finish` of a layer its shared experts are computed.
    """

    @property
    def laps(self) -> Laps: ...  # noqa: D102

    @property
    def key(self) -> Hashable:
        """Changes when the operations of a pass would be others. To be asked inside `passing`."""
        ...

    def passing(self, tokens: int) -> AbstractContextManager[None]:
        """Go around one pass over so many tokens. Raises `UserError` when it fails for want of an answer."""
        ...

    def rest(self) -> None:
        """Sleep while the pool still works for a pass that was launched as a whole: its workers need the cores."""
        ...

    def close(self) -> None:
        """Stop what works for it. Idempotent."""
        ...

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """Start on `buffers.normed` and `buffers.expert_ids`, with the entries' weights [tokens, top_k]."""
        ...

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """Add the weighted rows to `buffers.hidden`: all, or those that do not join late."""
        ...

    def join_late(self, buffers: Buffers) -> None:
        """Add the rows of an earlier layer that are still missing in `buffers.hidden`."""
        ...


class Direct:
    """Calls the pool, and waits for it in place."""

    def __init__(self, compute: PoolCompute, trim: Trim | None = None, laps: Laps | None = None) -> None:
        """`trim`: what is left out; nothing unless given."""
        self.laps: Laps = laps or NoLaps()
        self._compute = compute
        self._trim = trim

    @property
    def key(self) -> Hashable:
        """See `Executor`."""
        return None

    @contextmanager
    def passing(self, tokens: int) -> Iterator[None]:
        """See `Executor`."""
        self.laps.start()
        yield
        self.laps.stop()

    def rest(self) -> None:
        """See `Executor`: it waits in place."""

    def begin(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        if self._trim is not None:
            self._trim(layer, buffers, weights)
            # An entry of weight 0 adds nothing: its row need not be there.
            buffers.expert_ids.masked_fill_(weights == 0, -1)
        self.laps.lap("router")
        compute = self._compute
        tokens, top_k = weights.shape
        x, ids, rows = buffers.normed.address, buffers.expert_ids.data_ptr(), buffers.expert_rows.data_ptr()
        compute.native.experts(compute.pool, layer.experts, tokens, top_k, x, ids, rows)
        self.laps.lap("experts")

    def finish(self, layer: ExpertLayer, buffers: Buffers, weights: torch.Tensor) -> None:
        """See `Executor`."""
        tokens, top_k = weights.shape
        hidden, rows = buffers.hidden, buffers.expert_rows.data_ptr()
        self._compute.native.combine(tokens, top_k, hidden.shape[1], rows, weights.data_ptr(), hidden.data_ptr())
        self.laps.lap("combine")

    def join_late(self, buffers: Buffers) -> None:
        """See `Executor`: nothing is late."""

    def close(self) -> None:
        """See `Executor`: nothing of its own works."""
