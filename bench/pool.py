"""Routed experts on the CPU pool: bytes of weights per second, beside the read bandwidth measured in the same run.

    python bench/pool.py [--threads N] [--formats bf16,q8_0] [--tokens 1,2,4,8] [--layouts stored,compute]
        [--fetch-ahead] [--quantile 0.5] [--json]

The kernels package is the one that `strata` would use; STRATA_PROVIDER_PATH names another.

Every call routes to other experts than the calls before it, out of more weights than the caches hold. `shared` routing
sends all tokens of a call to the same experts (each weight is read once for all of them), `random` draws per token.
Layouts: `stored` as a file has the weights, `compute` as `engine.weight_layout` arranges them. GB/s count the stored
format's bytes in both, so a layout that takes more memory gains nothing by it. `x T=1` is the time of a call over that
of one token in the same routing and layout: what a wider window costs. `--fetch-ahead` runs the compute layout with
`pool.fetch_ahead` off and on, side by side; the first line says which of them `auto` takes on this CPU.

One round reads the buffer that shows the bandwidth, in pieces of a call's size, and makes all calls of one format in
turn, so what other programs do meanwhile falls on all of it alike. Figures are the median of all calls and pieces;
`--quantile 0.1` takes the faster ones, which are the undisturbed ones on a machine that is not quiet.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from strata_runtime.memory import huge_bytes
from strata_runtime.provider import find_provider

HIDDEN, WIDTH, TOP_K = 2048, 768, 8
TOTAL_BYTES = 512 << 20
ROUNDS = 7
LAYOUTS = ("stored", "compute")
ROUTINGS = ("shared", "random")

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


@dataclass(frozen=True)
class Result:
    """One row of the table. `share` is the fraction of the read bandwidth, `memory` of the stored size."""

    format: str
    layout: str
    fetch_ahead: str
    routing: str
    tokens: int
    microseconds: float
    gigabytes_per_second: float
    share: float
    times_one_token: float
    memory: float


def seconds_of(call: Callable[[], object]) -> float:
    """Return the time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def random_blocks(info: Any, count: int, seed: int) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the bytes of blocks of random bits, whose floats are finite: the upper bits of every byte are 0."""
    blocks = np.random.default_rng(seed).integers(0, 256, (count, info.block_bytes), np.uint8)
    for field in (info.values, info.scale, info.minimum):
        if field is not None:
            blocks[:, field.offset :][:, : 1 if field.type == "e8m0_half" else 2] = 0x20
    if info.values is not None:
        blocks &= 0x3F
    return blocks.reshape(-1)


class Layer:
    """Experts with random weights in one format and one layout."""

    def __init__(self, native: Any, pool: Any, info: Any, layout: Any, seed: int) -> None:
        shapes = ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
        stored = [rows * info.row_bytes(columns) for rows, columns in shapes]
        sizes = stored if layout is None else [layout.bytes(rows, columns) for rows, columns in shapes]
        self.stored_bytes, self.memory = sum(stored), sum(sizes) / sum(stored)
        self.count = max(2 * TOP_K, TOTAL_BYTES // self.stored_bytes)
        matrices = [random_blocks(info, size // info.block_bytes, seed) for size in stored]
        self.weights = huge_bytes(self.count * sum(sizes))
        one = self.weights[: sum(sizes)]
        for (rows, columns), blocks, size, to in zip(shapes, matrices, sizes, np.cumsum([0, *sizes]), strict=False):
            if layout is None:
                one[to : to + size] = blocks
            else:
                native.arrange(pool, layout, rows, columns, blocks.ctypes.data, one.ctypes.data + int(to))
        self.weights.reshape(self.count, -1)[1:] = one
        starts = [self.weights.ctypes.data + index * sum(sizes) for index in range(self.count)]
        parts: Iterator[Any] = (
            (info.name, [start + offset for start in starts], [], layout) for offset in (0, sizes[0], 2 * sizes[0])
        )
        self.experts = native.make_experts(HIDDEN, WIDTH, *parts, self.weights)


def routes(layer: Layer, tokens: int, routing: str, calls: int) -> Iterator[np.ndarray[Any, np.dtype[np.int32]]]:
    """Yield ids [tokens, TOP_K] for every call; shared ones walk through all experts in turn."""
    generator = np.random.default_rng(tokens)
    for call in range(calls):
        if routing == "shared":
            picks = (np.arange(TOP_K) + call * TOP_K) % layer.count
            yield np.tile(picks, (tokens, 1)).astype(np.int32)
        else:
            rows = [generator.choice(layer.count, TOP_K, replace=False) for _ in range(tokens)]
            yield np.stack(rows).astype(np.int32)


class Sweep:
    """Calls that walk through a layer's experts once, and the stored bytes that a call reads in the mean."""

    def __init__(self, native: Any, pool: Any, layer: Layer, tokens: int, routing: str) -> None:
        self._native, self._pool, self._layer, self._tokens = native, pool, layer, tokens
        self._ids = list(routes(layer, tokens, routing, max(4, layer.count // TOP_K)))
        self._x = np.random.default_rng(1).standard_normal((tokens, HIDDEN), dtype=np.float32)
        self._out = np.empty((tokens * TOP_K, HIDDEN), np.float32)
        self.bytes = statistics.mean(len(np.unique(picks)) for picks in self._ids) * layer.stored_bytes

    def seconds(self) -> list[float]:
        """Return the time of every call."""
        pool, experts, x, out = self._pool, self._layer.experts, self._x.ctypes.data, self._out.ctypes.data
        call = partial(self._native.experts, pool, experts, self._tokens, TOP_K, x)
        return [seconds_of(partial(call, picks.ctypes.data, out)) for picks in self._ids]


class Reads:
    """Reads of one buffer, piece by piece."""

    def __init__(self, native: Any, pool: Any) -> None:
        self._native, self._pool = native, pool
        self._buffer = huge_bytes(TOTAL_BYTES)
        self._buffer.fill(1)

    def seconds_per_byte(self, piece: int) -> list[float]:
        """Return what every piece took for each of its bytes."""
        pieces = [self._buffer[first : first + piece] for first in range(0, TOTAL_BYTES - piece + 1, piece)]
        call = partial(self._native.checksum, self._pool)
        return [seconds_of(partial(call, part.ctypes.data, part.nbytes)) / piece for part in pieces]


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value that `share` of all do not exceed."""
    return float(np.quantile(values, share))


def run_format(
    native: Any,
    pools: Mapping[str, Any],
    info: Any,
    tokens: Sequence[int],
    layouts: Sequence[str],
    share: float,
    reads: Reads,
) -> tuple[float, list[Result]]:
    """Return the read bandwidth, and a result per layout, pool, routing and number of tokens.

    `pools`: by their `pool.fetch_ahead`, of which stored rows know nothing.
    """
    pool = next(iter(pools.values()))
    sweeps: dict[tuple[str, str, str, int], Sweep] = {}
    memory: dict[str, float] = {}
    for name in layouts:
        layout = native.layout(pool, info.name) if name == "compute" else None
        if name == "compute" and layout is None:
            continue
        layer = Layer(native, pool, info, layout, seed=0)
        memory[name] = layer.memory
        counts = sorted({1, *tokens})
        sweeps |= {
            (name, fetch, routing, count): Sweep(native, each, layer, count, routing)
            for routing in ROUTINGS
            for count in counts
            for fetch, each in (pools if layout is not None else {"": pool}).items()
        }
    taken: dict[tuple[str, str, str, int], list[float]] = {key: [] for key in sweeps}
    read: list[float] = []
    for _ in range(ROUNDS):
        read += reads.seconds_per_byte(int(next(iter(sweeps.values())).bytes))
        for key, sweep in sweeps.items():
            taken[key] += sweep.seconds()
    bandwidth = 1 / quantile(read, share)
    results = []
    for (name, fetch, routing, count), sweep in sweeps.items():
        if count in tokens:
            seconds = quantile(taken[name, fetch, routing, count], share)
            rate, single = sweep.bytes / seconds, quantile(taken[name, fetch, routing, 1], share)
            figures = (seconds * 1e6, rate / 1e9, rate / bandwidth, seconds / single, memory[name])
            results.append(Result(info.name, name, fetch, routing, count, *figures))
    return bandwidth, results


def run(
    native: Any,
    pools: Mapping[str, Any],
    formats: Sequence[Any],
    tokens: Sequence[int],
    layouts: Sequence[str],
    share: float,
) -> tuple[float, list[Result]]:
    """Return the median of the formats' read bandwidths, and all results."""
    reads = Reads(native, next(iter(pools.values())))
    bandwidths, results = [], []
    for info in formats:
        bandwidth, rows = run_format(native, pools, info, tokens, layouts, share, reads)
        bandwidths.append(bandwidth)
        results += rows
    return statistics.median(bandwidths), results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="workers; 0: one per physical core")
    parser.add_argument("--formats", help="comma-separated; default: all of the package")
    parser.add_argument("--tokens", default="1,2,4,8", help="comma-separated numbers of tokens")
    parser.add_argument("--layouts", default=",".join(LAYOUTS), help="comma-separated: stored, compute")
    parser.add_argument(
        "--fetch-ahead", action="store_true", help="the compute layout with pool.fetch_ahead off and on"
    )
    parser.add_argument("--quantile", type=float, default=0.5, help="of the times of calls; 0.5 is the median")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    package: Any = find_provider(os.environ)
    wanted = arguments.formats.split(",") if arguments.formats else [info.name for info in package.formats]
    formats = [info for info in package.formats if info.name in wanted]
    tokens = [int(word) for word in arguments.tokens.split(",")]
    layouts = [name for name in LAYOUTS if name in arguments.layouts.split(",")]
    threads = ("pool.threads", str(arguments.threads))
    chosen = package.native.make_pool([threads])
    auto = "on" if chosen.fetches_ahead else "off"
    values = ("off", "on") if arguments.fetch_ahead else (auto,)
    pools = {value: package.native.make_pool([threads, ("pool.fetch_ahead", value)]) for value in values}
    chosen.close()
    bandwidth, results = run(package.native, pools, formats, tokens, layouts, arguments.quantile)
    for pool in pools.values():
        pool.close()
    if arguments.json:
        head = {"isa": package.native.ISA, "fetch_ahead": auto, "read_gigabytes_per_second": bandwidth / 1e9}
        print(json.dumps({**head, "results": [asdict(result) for result in results]}, indent=2))
        return
    print(
        f"{package.native.ISA}, hidden {HIDDEN}, width {WIDTH}, top-{TOP_K}; "
        f"read bandwidth {bandwidth / 1e9:.1f} GB/s; pool.fetch_ahead is {auto}"
    )
    print(
        f"{'format':8}{'layout':9}{'memory':>7}  {'fetch':6}{'routing':9}{'tokens':>7}"
        f"{'us/call':>10}{'GB/s':>8}{'of read':>9}{'x T=1':>8}"
    )
    for row in results:
        print(
            f"{row.format:8}{row.layout:9}{row.memory:>7.3f}  {row.fetch_ahead:6}{row.routing:9}{row.tokens:>7}"
            f"{row.microseconds:>10.0f}{row.gigabytes_per_second:>8.1f}{row.share:>9.0%}{row.times_one_token:>8.2f}"
        )


if __name__ == "__main__":
    main()
