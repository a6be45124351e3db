"""What a cap on a window's expert entries saves: time of the experts with and without it, beside the bytes not read.

    python bench/ecap.py [--format q4_k] [--tokens 5] [--caps 16,24,32] [--threads N]

Every token of a window draws its own experts, so that few are shared, and their weights. A capped window goes through
the kernel `ecap_redirect`, and entries of weight 0 are not computed, as in the engine. Calls with every cap and without
one take turns, each window with other experts. `saved` is what is not read, `gained` the time that is not taken.
"""

from __future__ import annotations

import argparse
import os
import statistics
from functools import partial
from typing import Any

import numpy as np
from common import report
from pool import HIDDEN, TOP_K, Layer, routes, seconds_of

from strata_runtime.bench.columns import table
from strata_runtime.layers.layout import AUTO_AT_MOST
from strata_runtime.layers.placing import Layouts
from strata_runtime.native_device import HOST_STREAM
from strata_runtime.provider import find_provider

ROUNDS = 7
OFF = 0


class Windows:
    """Windows of some tokens over one layer, with or without a cap."""

    def __init__(self, provider: Any, format_name: str, tokens: int, threads: int) -> None:
        self._native, self._tokens = provider.native, tokens
        self._pool = self._native.make_pool([("pool.threads", str(threads))])
        info = next(info for info in provider.formats if info.name == format_name)
        self._layer = Layer(
            self._native, self._pool, info, Layouts(self._native, self._pool, AUTO_AT_MOST).of(info), seed=0
        )
        self._x = np.random.default_rng(1).standard_normal((tokens, HIDDEN), dtype=np.float32)
        self._out = np.empty((tokens * TOP_K, HIDDEN), np.float32)
        calls = max(8, self._layer.count // TOP_K)
        self._ids = list(routes(self._layer, tokens, "random", calls))
        drawn = np.random.default_rng(2).dirichlet(np.ones(TOP_K), (calls, tokens))
        self._weights = -np.sort(-drawn).astype(np.float32)

    def _entries(self, window: int, cap: int) -> np.ndarray[Any, np.dtype[np.int32]]:
        ids, weights = self._ids[window].copy(), self._weights[window].copy()
        if cap != OFF:
            self._native.device.ecap_redirect(
                self._tokens, TOP_K, cap, ids.ctypes.data, weights.ctypes.data, HOST_STREAM
            )
            ids[weights == 0] = -1
        return ids

    def measure(self, cap: int) -> tuple[float, float]:
        """Return the mean number of experts that a window reads, and the median seconds of its experts."""
        windows = [self._entries(window, cap) for window in range(len(self._ids))]
        given = self._pool, self._layer.experts, self._tokens, TOP_K, self._x.ctypes.data
        call = partial(self._native.experts, *given)
        seconds = [seconds_of(partial(call, ids.ctypes.data, self._out.ctypes.data)) for ids in windows]
        return statistics.mean(len(np.unique(ids[ids >= 0])) for ids in windows), statistics.median(seconds)


def run(windows: Windows, caps: list[int]) -> list[dict[str, float]]:
    """Return experts, microseconds, and shares saved and gained for every cap; the first is without one."""
    experts: dict[int, float] = {}
    seconds: dict[int, list[float]] = {cap: [] for cap in (OFF, *caps)}
    for turn in range(ROUNDS + 1):
        for cap, taken in seconds.items():
            experts[cap], middle_of_turn = windows.measure(cap)
            if turn > 0:
                taken.append(middle_of_turn)
    middle = {cap: statistics.median(taken) for cap, taken in seconds.items()}
    return [
        {
            "cap": cap,
            "experts": experts[cap],
            "microseconds": middle[cap] * 1e6,
            "saved": 1 - experts[cap] / experts[OFF],
            "gained": 1 - statistics.median(a / b for a, b in zip(seconds[cap], seconds[OFF], strict=True)),
        }
        for cap in seconds
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--format", default="q4_k", help="format of the experts")
    parser.add_argument("--tokens", type=int, default=5, help="positions of a window")
    parser.add_argument("--caps", default="16,24,32", help="comma-separated caps")
    parser.add_argument("--threads", type=int, default=0, help="workers; 0: one per physical core")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    windows = Windows(find_provider(os.environ), options.format, options.tokens, options.threads)
    rows = run(windows, [int(cap) for cap in options.caps.split(",")])
    head = ("cap", "experts a window", "us", "saved", "gained")
    cells = [
        (
            str(int(row["cap"])) if row["cap"] else "off",
            f"{row['experts']:.1f}",
            f"{row['microseconds']:.0f}",
            f"{row['saved']:.0%}",
            f"{row['gained']:.0%}",
        )
        for row in rows
    ]
    report({"caps": rows}, table([head, *cells]), as_json=options.json)


if __name__ == "__main__":
    main()
