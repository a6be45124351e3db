"""Windows as graphs: captured once for every division into parts, and launched as a whole after that."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass, replace
from functools import partial

import torch

from strata_runtime.device.compute import DeviceCompute
from strata_runtime.device.streams import make_stream
from strata_runtime.layers.outcome import Outcome
from strata_runtime.layers.passes import Body, Eager, Pass

_FIRST_LAYERS = 2
"""Of a window, which are a graph of their own: they run while the rest of it is launched, which takes as long."""

_MOST = 64
"""Graphs that are kept: those used last. Texts that share windows divide them in many ways."""


@dataclass(frozen=True, slots=True)
class _Captured:
    """Graphs that follow each other, and what they write: logits, their digest (on the host too), states if wanted."""

    graphs: tuple[torch.cuda.CUDAGraph, ...]
    logits: torch.Tensor
    digest: torch.Tensor
    digest_on_host: torch.Tensor
    states: torch.Tensor | None


class Graphs:
    """Runs windows as graphs of a GPU, and other passes operation by operation. Implements `Runner`.

    The first window of a kind is run operation by operation, so that everything it needs is there when it is captured.
    """

    def __init__(self, compute: DeviceCompute) -> None:
        self._compute = compute
        self._eager = Eager(compute)
        self._captured: OrderedDict[Hashable, _Captured | None] = OrderedDict()
        self._on_host: dict[torch.Size, torch.Tensor] = {}
        # Graphs share memory when they are captured on the same stream. Their kernels keep its priority wherever they
        # are launched.
        self._stream = make_stream(compute.device, goes_first=True) if compute.device.type == "cuda" else None

    def run(self, body: Body, work: Pass) -> Outcome:
        """See `Runner`."""
        if not work.is_window:
            return self._eager.run(body, work)
        executor, tokens = work.executor, len(work.ids)
        with executor.passing(tokens):
            self._compute.inputs.write(work.ids, [cache.length for _, cache in work.parts])
            key = self._key(work)
            if self._compute.device.type != "cuda" or key not in self._captured:
                self._keep(key, None)
                logits = self._once(body, work)
                if self._compute.device.type == "cuda":
                    self._digest(logits)  # so that it is loaded when it is captured
                return Outcome.on_cpu(logits.cpu())
            captured = self._captured[key] or self._capture(body, work)
            self._keep(key, captured)
            return self._replay(captured, work)

    def _key(self, work: Pass) -> Hashable:
        parts = tuple(
            (tokens, cache.data.data_ptr(), cache.angles.data_ptr(), cache.capacity) for tokens, cache in work.parts
        )
        executor = work.executor
        return parts, work.logits, work.states is not None, id(executor), executor.key

    def _keep(self, key: Hashable, captured: _Captured | None) -> None:
        """Note a kind of window as the one used last: None until it is captured."""
        self._captured[key] = captured
        self._captured.move_to_end(key)
        if len(self._captured) > _MOST:
            self._captured.popitem(last=False)

    def _once(self, body: Body, work: Pass) -> torch.Tensor:
        return body(self._compute.inputs.ids(len(work.ids)), self._compute.window_reach(work.parts), work)

    def _pool(self) -> torch.cuda._POOL_HANDLE | None:
        """Return the memory that graphs share: one runs at a time, and its results are taken before the next one.

        It is that of one which is there: torch takes no memory again that no graph has any more.
        """
        return next((each.graphs[0].pool() for each in self._captured.values() if each is not None), None)

    def _capture(self, body: Body, work: Pass) -> _Captured:
        states = None if work.states is None else torch.empty_like(work.states)
        graphs = [torch.cuda.CUDAGraph()]

        def cut(layer: int) -> None:
            if layer == _FIRST_LAYERS:
                graphs[-1].capture_end()
                graphs.append(torch.cuda.CUDAGraph())
                graphs[-1].capture_begin(pool=graphs[0].pool(), capture_error_mode="thread_local")

        captured = replace(work, states=states, before_layer=cut)
        outside, stream = torch.cuda.current_stream(self._compute.device), self._stream
        assert stream is not None
        stream.wait_stream(outside)
        with torch.cuda.stream(stream):
            # Not `torch.cuda.graph`, which waits for the whole device: a prompt may be being read.
            graphs[0].capture_begin(pool=self._pool(), capture_error_mode="thread_local")
            try:
                logits = self._once(body, captured)
                digest = self._digest(logits)
            finally:
                graphs[-1].capture_end()
        outside.wait_stream(stream)
        on_host = torch.empty_like(digest, device="cpu", pin_memory=True)
        return _Captured(tuple(graphs), logits, digest, on_host, states)

    def _digest(self, logits: torch.Tensor) -> torch.Tensor:
        """Return the most probable token of each row and the bits of the sum over all logits, int32 [rows + 1]."""
        rows, columns = logits.shape
        compute = self._compute
        digest = compute.empty(rows + 1, dtype=torch.int32)
        compute.native.device.argmax(rows, columns, logits.data_ptr(), digest.data_ptr(), compute.stream)
        torch.sum(logits.view(-1), 0, keepdim=True, out=digest[rows:].view(torch.float32))
        return digest

    def _replay(self, captured: _Captured, work: Pass) -> Outcome:
        for graph in captured.graphs:
            graph.replay()
        captured.digest_on_host.copy_(captured.digest, non_blocking=True)
        if work.states is not None and captured.states is not None:
            work.states.copy_(captured.states, non_blocking=True)
        work.executor.rest()
        # Awake from here on: to be woken takes half a millisecond, and there is less left to wait for.
        torch.cuda.current_stream(self._compute.device).synchronize()
        *best, _ = captured.digest_on_host.tolist()
        total = float(captured.digest_on_host[-1:].view(torch.float32))
        return Outcome(total, partial(self._fetch, captured.logits), best)

    @torch.inference_mode()
    def _fetch(self, logits: torch.Tensor) -> torch.Tensor:
        if logits.shape not in self._on_host:
            self._on_host[logits.shape] = torch.empty_like(logits, device="cpu", pin_memory=True)
        on_host = self._on_host[logits.shape]
        on_host.copy_(logits, non_blocking=True)
        torch.cuda.current_stream(self._compute.device).synchronize()
        return on_host
