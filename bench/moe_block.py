"""The mixture-of-experts block alone, beside llama.cpp's and kt-kernel's: same weights, inputs, experts and threads.

    python bench/moe_block.py --llama-cpp FOLDER --kt-python VENV/bin/python --threads 2

The block is Qwen3-30B-A3B's: 128 experts of which each token takes 8, hidden 2048, width 768; gate, up, silu, down and
the weighted sum. Every call takes other experts than the call before, so weights come from memory. GB/s counts each
expert that a call touches once. Every arm runs in a process of its own, in turn; outputs of all arms are compared.

FOLDER holds llama.cpp's `libggml-base.so` and `libggml-cpu.so` (`vs_llama_cpp.py` says how to build them). Its block is
the graph that it makes of a model's layer, weights repacked where it repacks a model's. VENV is an environment of its
own with kt-kernel (`pip install kt-kernel` there; a later torch than the one it pins works too). It takes Q4_K, Q8_0,
F16 and BF16, the last in kernels of its own where the CPU has AVX-512 with BF16. Each peer is left out when its option
is.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from blocks import (
    HIDDEN,
    TOP_K,
    WIDTH,
    Bytes,
    calls_of,
    distinct,
    expert_bytes,
    expert_weights,
    formats_and_tokens,
)
from common import report, spread
from workers import Message, Worker, serve

from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import usable_cpus
from strata_runtime.bench.memory import ReadBuffer
from strata_runtime.layers.layout import AUTO_AT_MOST
from strata_runtime.layers.placing import Layouts
from strata_runtime.memory import huge_bytes
from strata_runtime.native import ExpertPart, Layout
from strata_runtime.provider import find_provider

OURS = "strata"
EXPERTS = 128
REST_S = 0.1
"""Between two arms, so that the threads of the last one stop spinning."""

HERE = Path(__file__).resolve().parent


class Strata:
    """The block under test."""

    def __init__(self, threads: int, name: str, experts: int) -> None:
        provider = find_provider(os.environ)
        self._native: Any = provider.native
        self._pool = self._native.make_pool([("pool.threads", str(threads))])
        shapes = ((WIDTH, HIDDEN), (WIDTH, HIDDEN), (HIDDEN, WIDTH))
        given = zip(expert_weights(name, experts), shapes, strict=True)
        form = next(form for form in provider.formats if form.name == name)
        layout = Layouts(self._native, self._pool, AUTO_AT_MOST).of(form)
        self._weights = [self._arranged(layout, each, *shape) for each, shape in given]
        gate, up, down = (self._part(name, each, layout) for each in self._weights)
        self._layer = self._native.make_experts(HIDDEN, WIDTH, gate, up, down, self._weights)
        self._experts = experts

    def _arranged(self, layout: Layout | None, matrices: Bytes, rows: int, columns: int) -> Bytes:
        """Bring the matrices of all experts into the layout that the engine gives them."""
        if layout is None:
            return matrices
        size = layout.bytes(rows, columns)
        arranged = huge_bytes(len(matrices) * size).reshape(len(matrices), size)
        for matrix, to in zip(matrices, arranged, strict=True):
            self._native.arrange(self._pool, layout, rows, columns, matrix.ctypes.data, to.ctypes.data)
        return arranged

    @staticmethod
    def _part(name: str, matrices: Bytes, layout: Layout | None) -> ExpertPart:
        return name, [matrix.ctypes.data for matrix in matrices], [], layout

    def answer(self, message: Message) -> Message:
        """Time the calls of {tokens, turn, walk}: seconds of one, and the first call's first row; or {read}."""
        if "read" in message:
            buffer = ReadBuffer(self._native)
            return {"bandwidth": median(buffer.bandwidth(self._pool) for _ in range(5))}
        tokens = message["tokens"]
        calls = calls_of(tokens, self._experts, message["turn"], walk=message["walk"])
        rows = np.empty((tokens * TOP_K, HIDDEN), np.float32)
        out = np.zeros((tokens, HIDDEN), np.float32)
        native, pool, layer = self._native, self._pool, self._layer

        def run(call: Any) -> None:
            out.fill(0)
            native.experts(pool, layer, tokens, TOP_K, call.x.ctypes.data, call.ids.ctypes.data, rows.ctypes.data)
            native.combine(tokens, TOP_K, HIDDEN, rows.ctypes.data, call.weights.ctypes.data, out.ctypes.data)

        started = time.perf_counter()
        for call in calls:
            run(call)
        seconds = (time.perf_counter() - started) / len(calls)
        run(calls[0])
        return {"seconds": seconds, "row": out[0].tolist(), "note": self._native.ISA}


def workers_of(options: argparse.Namespace, name: str, experts: int) -> list[Worker]:
    """Start the arms: strata first, then the peers that were asked for."""
    common = ["--format", name, "--experts", str(experts), "--threads", str(options.threads)]
    workers = [Worker(HERE / "moe_block.py", OURS, common, options.threads)]
    if options.llama_cpp:
        library = ["--library", str(options.llama_cpp)]
        workers.append(Worker(HERE / "moe_peers.py", "llama.cpp", common + library, options.threads))
    if options.kt_python:
        python = str(options.kt_python)
        workers.append(Worker(HERE / "moe_peers.py", "kt-kernel", common, options.threads, python))
    return workers


def difference(row: Sequence[float], other: Sequence[float]) -> float:
    """Return the relative distance of two outputs."""
    a, b = np.asarray(row), np.asarray(other)
    return float(np.linalg.norm(a - b) / np.linalg.norm(a))


def warmed_up(workers: Sequence[Worker], tokens: int) -> list[Worker]:
    """Let every arm run once, which does not count; return those that can. Peers end where they lack a format."""
    able = []
    for worker in workers:
        try:
            worker.ask(tokens=tokens, turn=0, walk=True)
        except RuntimeError:
            if worker.name == OURS:
                raise
        else:
            able.append(worker)
    return able


def measure(workers: Sequence[Worker], tokens: int, rounds: int) -> dict[str, list[Message]]:
    """Take interleaved samples of every arm."""
    answers: dict[str, list[Message]] = {worker.name: [] for worker in workers}
    for turn in range(1, rounds + 1):
        at = turn % len(workers)
        for worker in (*workers[at:], *workers[:at]):
            time.sleep(REST_S)
            answers[worker.name].append(worker.ask(tokens=tokens, turn=turn, walk=True))
    return answers


def compare(options: argparse.Namespace, name: str, left_out: list[str]) -> list[dict[str, Any]]:
    """Measure one format: a row per arm and number of tokens. Peers that cannot are added to `left_out`."""
    workers = workers_of(options, name, EXPERTS)
    bandwidth = workers[0].ask(read=True)["bandwidth"]
    rows = []
    for tokens in options.tokens:
        able = warmed_up(workers, tokens)
        left_out += [
            f"{worker.name} ended in {name}: see its message above" for worker in workers if worker not in able
        ]
        workers = able
        answers = measure(workers, tokens, options.rounds)
        touched = [distinct(calls_of(tokens, EXPERTS, turn, walk=True)) for turn in range(1, options.rounds + 1)]
        read = median(touched) * expert_bytes(name)
        ours = answers[OURS]
        for arm, theirs in answers.items():
            seconds = [answer["seconds"] for answer in theirs]
            pairs = zip(theirs, ours, strict=True)
            rows.append(
                {
                    "format": name,
                    "tokens": tokens,
                    "arm": arm,
                    "note": theirs[0]["note"],
                    "microseconds": {key: value * 1e6 for key, value in spread(seconds).items()},
                    "bytes_per_second": read / median(seconds),
                    "of_memory": read / median(seconds) / bandwidth,
                    "ratio": spread([a["seconds"] / b["seconds"] for a, b in pairs]),
                    "difference": max(difference(a["row"], b["row"]) for a, b in zip(ours, theirs, strict=True)),
                }
            )
    for worker in workers:
        worker.close()
    return rows


def lines_of(result: Mapping[str, Any]) -> list[str]:
    """Return the result as a table."""
    columns = ("us a call", "GB/s", "of memory", "over strata", "lowest", "highest", "difference")
    rows: list[tuple[str, ...]] = [("format", "tokens", "arm", *columns)]
    for row in result["rows"]:
        ratio = row["ratio"]
        rows.append(
            (
                row["format"],
                str(row["tokens"]),
                f"{row['arm']} ({row['note']})" if row.get("note") else row["arm"],
                f"{row['microseconds']['median']:.0f}",
                f"{row['bytes_per_second'] / 1e9:.1f}",
                f"{row['of_memory']:.0%}" if "of_memory" in row else "",
                f"{ratio['median']:.2f}",
                f"{ratio['min']:.2f}",
                f"{ratio['max']:.2f}",
                f"{row['difference']:.1e}" if "difference" in row else "",
            )
        )
    setting = f"{result['experts']} experts, {result['threads']} threads, {result['rounds']} rounds"
    return ["", setting, "", *table(rows), *result["left_out"]]


def main() -> None:
    """Parse the command line; be the parent or a worker."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-cpp", type=Path, metavar="FOLDER", help="where llama.cpp's libraries are")
    parser.add_argument("--kt-python", type=Path, metavar="PATH", help="Python of an environment with kt-kernel")
    parser.add_argument("--formats", default="q4_k,q8_0,iq3_s,bf16,f16", help="comma-separated")
    parser.add_argument("--tokens", default="1,4,5,8,32", help="comma-separated numbers of tokens, at most 64")
    parser.add_argument("--threads", type=int, default=usable_cpus(), help="threads of each arm")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--worker", choices=[OURS], help=argparse.SUPPRESS)
    parser.add_argument("--format", help=argparse.SUPPRESS)
    parser.add_argument("--experts", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        serve(Strata(options.threads, options.format, options.experts).answer)
        return
    formats, options.tokens = formats_and_tokens(parser, options)
    left_out: list[str] = []
    rows = [row for name in formats for row in compare(options, name, left_out)]
    result = {
        "left_out": left_out,
        "experts": EXPERTS,
        "threads": options.threads,
        "rounds": options.rounds,
        "rows": rows,
    }
    report(result, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
