"""A package's kernels on a GPU or inline, and the time of their launches: what benchmarks of device kernels share."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from strata_runtime.native_device import HOST_STREAM
from strata_runtime.provider import find_provider

Launch = Callable[[int], object]
"""Launches kernels on a stream."""


class TimedDevice:
    """The kernels of a package, and where they run: `cuda`, or `cpu` for inline."""

    def __init__(self, name: str) -> None:
        package = find_provider(os.environ)
        self.kernels: Any = package.native.device
        self.formats = {info.name: info for info in package.formats}
        self.name = name
        self.is_gpu = name != "cpu"

    @property
    def stream(self) -> int:
        """The stream that launches go to."""
        return torch.cuda.current_stream().cuda_stream if self.is_gpu else HOST_STREAM

    def seconds(self, launches: Sequence[Launch]) -> float:
        """The time of one launch, of many that follow each other."""
        if not self.is_gpu:
            start = time.perf_counter()
            for launch in launches:
                launch(self.stream)
            return (time.perf_counter() - start) / len(launches)
        for launch in launches:  # loads kernels before anything is captured
            launch(self.stream)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for launch in launches:
                launch(self.stream)
        return min(self._replays(graph) for _ in range(5)) / len(launches)

    def _replays(self, graph: torch.cuda.CUDAGraph, times: int = 4) -> float:
        graph.replay()
        event: Any = torch.cuda.Event
        begin, end = event(enable_timing=True), event(enable_timing=True)
        begin.record()
        for _ in range(times):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        return float(begin.elapsed_time(end)) / 1e3 / times

    def copy_bandwidth(self) -> float:
        """Bytes read and written per second by a copy of a gigabyte (inline: of 16 MiB)."""
        source = torch.zeros(1 << (30 if self.is_gpu else 24), dtype=torch.uint8, device=self.name)
        to = torch.empty_like(source)
        return 2 * source.nbytes / self.seconds([lambda _stream: to.copy_(source)] * 4)
