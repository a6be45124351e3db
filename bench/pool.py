"""Routed experts on the CPU pool: bytes of weights per second, beside the read bandwidth measured in the same run.

    python bench/pool.py [--threads N] [--formats bf16,q8_0] [--tokens 1,2,4,8] [--json]

The kernels package is the one that `strata` would use; STRATA_PROVIDER_PATH names another.

Every call routes to other experts than the calls before it, out of more weights than the caches hold. `shared` routing
sends all tokens of a call to the same experts (each weight is read once for all of them), `random` draws per token.
`x T=1` is the time of a call over that of one token in the same routing: what a wider window costs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from strata_runtime.provider import find_provider

HIDDEN, WIDTH, TOP_K = 2048, 768, 8
TOTAL_BYTES = 512 << 20
ROUNDS = 5


@dataclass(frozen=True)
class Result:
    """One row of the table. `share` is the fraction of the measured read bandwidth."""

    format: str
    routing: str
    tokens: int
    microseconds: float
    gigabytes_per_second: float
    share: float
    times_one_token: float


def median_seconds(call: Callable[[], object], calls: int) -> float:
    """Return the median over rounds of the mean time of `calls` calls."""

    def one_round() -> float:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        return (time.perf_counter() - start) / calls

    return statistics.median(one_round() for _ in range(ROUNDS))


def read_bandwidth(native: Any, pool: Any) -> float:
    """Return bytes per second of reading a buffer of `TOTAL_BYTES`."""
    buffer = np.ones(TOTAL_BYTES, np.uint8)
    native.checksum(pool, buffer.ctypes.data, buffer.nbytes)
    return buffer.nbytes / median_seconds(lambda: native.checksum(pool, buffer.ctypes.data, buffer.nbytes), 1)


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
    """Experts with random weights in one format."""

    def __init__(self, native: Any, info: Any, seed: int) -> None:
        wide, tall = WIDTH * info.row_bytes(HIDDEN), HIDDEN * info.row_bytes(WIDTH)
        self.expert_bytes = 2 * wide + tall
        self.count = max(2 * TOP_K, TOTAL_BYTES // self.expert_bytes)
        self.weights = np.empty(self.count * self.expert_bytes, np.uint8)
        self.weights.reshape(self.count, -1)[:] = random_blocks(info, self.expert_bytes // info.block_bytes, seed)
        starts = [self.weights.ctypes.data + index * self.expert_bytes for index in range(self.count)]
        self.experts = native.make_experts(
            HIDDEN,
            WIDTH,
            *((info.name, [start + offset for start in starts], []) for offset in (0, wide, 2 * wide)),
            self.weights,
        )


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


def measure(native: Any, pool: Any, layer: Layer, tokens: int, routing: str) -> tuple[float, float]:
    """Return seconds of one call, and mean bytes of the distinct experts that it reads."""
    calls = max(4, layer.count // TOP_K)
    ids = list(routes(layer, tokens, routing, calls))
    x = np.random.default_rng(1).standard_normal((tokens, HIDDEN), dtype=np.float32)
    out = np.empty((tokens * TOP_K, HIDDEN), np.float32)

    def sweep() -> None:
        for picks in ids:
            native.experts(pool, layer.experts, tokens, TOP_K, x.ctypes.data, picks.ctypes.data, out.ctypes.data)

    sweep()
    distinct = statistics.mean(len(np.unique(picks)) for picks in ids)
    return median_seconds(sweep, 1) / calls, distinct * layer.expert_bytes


def run(native: Any, formats: Sequence[Any], tokens: Sequence[int], threads: int) -> tuple[float, list[Result]]:
    """Return the read bandwidth and a result per format, routing and number of tokens."""
    pool = native.make_pool([("pool.threads", str(threads))])
    bandwidth = read_bandwidth(native, pool)
    results = []
    for info in formats:
        layer = Layer(native, info, seed=0)
        for routing in ("shared", "random"):
            single, _ = measure(native, pool, layer, 1, routing)
            for count in tokens:
                seconds, read = measure(native, pool, layer, count, routing)
                rate = read / seconds
                results.append(
                    Result(info.name, routing, count, seconds * 1e6, rate / 1e9, rate / bandwidth, seconds / single)
                )
        del layer
    pool.close()
    return bandwidth, results


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="workers; 0: one per physical core")
    parser.add_argument("--formats", help="comma-separated; default: all of the package")
    parser.add_argument("--tokens", default="1,2,4,8", help="comma-separated numbers of tokens")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    package = find_provider(os.environ)
    wanted = arguments.formats.split(",") if arguments.formats else [info.name for info in package.formats]
    formats = [info for info in package.formats if info.name in wanted]
    tokens = [int(word) for word in arguments.tokens.split(",")]
    bandwidth, results = run(package.native, formats, tokens, arguments.threads)
    if arguments.json:
        head = {"isa": package.native.ISA, "read_gigabytes_per_second": bandwidth / 1e9}
        print(json.dumps({**head, "results": [asdict(result) for result in results]}, indent=2))
        return
    print(
        f"{package.native.ISA}, hidden {HIDDEN}, width {WIDTH}, top-{TOP_K}; read bandwidth {bandwidth / 1e9:.1f} GB/s"
    )
    print(f"{'format':8}{'routing':9}{'tokens':>7}{'us/call':>10}{'GB/s':>8}{'of read':>9}{'x T=1':>8}")
    for row in results:
        print(
            f"{row.format:8}{row.routing:9}{row.tokens:>7}{row.microseconds:>10.0f}{row.gigabytes_per_second:>8.1f}"
            f"{row.share:>9.0%}{row.times_one_token:>8.2f}"
        )


if __name__ == "__main__":
    main()
