"""Windows as graphs: captured once for every number of tokens, and launched as a whole after that."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.layers.passes import Body, Eager, Outcome, Pass


@dataclass(frozen=True, slots=True)
class _Captured:
    """A graph, and what it writes: logits and their sum, on the device and on the host, and states if wanted."""

    graph: torch.cuda.CUDAGraph
    logits: torch.Tensor
    total: torch.Tensor
    on_host: torch.Tensor
    total_on_host: torch.Tensor
    states: torch.Tensor | None
    done: torch.cuda.Event


class Graphs:
    """Runs windows as graphs of a GPU, and other passes operation by operation. Implements `Runner`.

    The first window of a kind is run operation by operation, so that everything it needs is there when it is captured.
    """

    def __init__(self, compute: DeviceCompute) -> None:
        self._compute = compute
        self._eager = Eager(compute)
        self._captured: dict[Hashable, _Captured] = {}
        self._seen: set[Hashable] = set()

    def run(self, body: Body, work: Pass) -> Outcome:
        """See `Runner`."""
        if not work.is_window:
            return self._eager.run(body, work)
        executor, tokens = work.executor, len(work.ids)
        with executor.passing(tokens):
            key = (tokens, work.cache.data.data_ptr(), work.logits, work.states is not None, id(executor), executor.key)
            self._compute.inputs.write(work.ids, work.cache.length)
            if self._compute.device.type != "cuda" or key not in self._seen:
                self._seen.add(key)
                logits = self._once(body, work)
                return Outcome(logits.cpu(), float(logits.sum()))
            if key not in self._captured:
                self._captured[key] = self._capture(body, work)
            return self._replay(self._captured[key], work)

    def _once(self, body: Body, work: Pass) -> torch.Tensor:
        tokens = len(work.ids)
        return body(self._compute.inputs.ids(tokens), self._compute.window_reach(work.cache, tokens), work)

    def _capture(self, body: Body, work: Pass) -> _Captured:
        graph = torch.cuda.CUDAGraph()
        states = None if work.states is None else torch.empty_like(work.states)
        captured = Pass(work.ids, work.cache, work.executor, work.logits, states, is_window=True)
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            logits = self._once(body, captured)
            total = logits.sum()
        on_host, total_on_host = (torch.empty(each.shape, pin_memory=True) for each in (logits, total))
        return _Captured(graph, logits, total, on_host, total_on_host, states, _sleeping_event())

    def _replay(self, captured: _Captured, work: Pass) -> Outcome:
        captured.graph.replay()
        captured.on_host.copy_(captured.logits, non_blocking=True)
        captured.total_on_host.copy_(captured.total, non_blocking=True)
        if work.states is not None and captured.states is not None:
            work.states.copy_(captured.states, non_blocking=True)
        # Asleep: a thread that spins would take a core from the pool while windows wait for it.
        captured.done.record()
        captured.done.synchronize()
        return Outcome(captured.on_host, float(captured.total_on_host))


def _sleeping_event() -> torch.cuda.Event:
    return torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
