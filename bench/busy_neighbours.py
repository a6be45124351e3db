"""Decode speed beside programs that keep the same CPUs busy: it must fall to a fair share and no further.

    python bench/busy_neighbours.py model.gguf --threads 2 --neighbours 0 1 2 --rounds 9

All run on the same CPUs, as many as there are threads; a neighbour is one endless loop. Rounds are short and
interleaved. With n neighbours on k CPUs a fair scheduler leaves k threads k / (k + n) of the time: `share` is the rate
over the one without neighbours, to be held beside that. `per CPU second` counts the CPU time that the engine took
instead of the time that passed: what falls there is wasted on waiting for workers that do not run.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from common import report
from workers import Message, Worker, serve

from strata_runtime.bench.columns import table

PROMPT = tuple(range(1, 9))
_LOOP = "while True: pass"
_SETTLE_S = 0.1


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Keep `count` programs busy meanwhile. They run where this process may."""
    busy = [subprocess.Popen([sys.executable, "-c", _LOOP]) for _ in range(count)]
    try:
        time.sleep(_SETTLE_S)
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def be_worker(model: Path, threads: int) -> None:
    """Answer with the seconds and the CPU seconds of decoding some tokens; the first token is not counted."""
    from strata_runtime import Engine, SamplingParams

    engine = Engine.load(model, pool_threads=threads, report=lambda line: None)

    def answer(message: Message) -> Message:
        generation = engine.generate(
            PROMPT, SamplingParams(temperature=0), max_tokens=message["tokens"] + 1, ignore_eos=True
        )
        chunks = iter(generation)
        next(chunks)
        start, started = time.perf_counter(), time.process_time()
        for _ in chunks:
            pass
        return {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - started}

    serve(answer)


def measure(worker: Worker, counts: Sequence[int], rounds: int, tokens: int) -> dict[int, dict[str, list[float]]]:
    """Return rates by count of neighbours, in tokens a second and a CPU second, one for each round."""
    found: dict[int, dict[str, list[float]]] = {count: {"rate": [], "cpu_rate": []} for count in counts}
    worker.ask(tokens=tokens)
    for _ in range(rounds):
        for count in counts:
            with neighbours(count):
                took = worker.ask(tokens=tokens)
            found[count]["rate"].append(tokens / took["seconds"])
            found[count]["cpu_rate"].append(tokens / took["cpu_seconds"])
    return found


def ratios(found: Mapping[int, Mapping[str, Sequence[float]]], threads: int) -> dict[str, Any]:
    """Compare with the round's own rate without neighbours."""
    result = {}
    for count, rates in found.items():
        paired = {
            name: median(one / alone for one, alone in zip(rates[name], found[0][name], strict=True)) for name in rates
        }
        result[str(count)] = {
            "rate": median(rates["rate"]),
            "fair": threads / (threads + count),
            "share": paired["rate"],
            "per_cpu_second": paired["cpu_rate"],
        }
    return result


def lines_of(result: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return the table."""
    rows: list[tuple[str, ...]] = [("neighbours", "tokens/s", "share", "fair share", "per CPU second")]
    for count, one in result.items():
        shares = (f"{one[name]:.2f}" for name in ("share", "fair", "per_cpu_second"))
        rows.append((count, f"{one['rate']:.2f}", *shares))
    return ["", *table(rows)]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--neighbours", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=20, help="tokens a round")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--worker", choices=("strata",), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker is not None:
        be_worker(options.model, options.threads)
        return
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.threads])
    arguments = [str(options.model), "--threads", str(options.threads)]
    worker = Worker(Path(__file__), "strata", arguments, options.threads)
    try:
        counts = sorted({0, *options.neighbours})
        result = ratios(measure(worker, counts, options.rounds, options.tokens), options.threads)
    finally:
        worker.close()
    report({"neighbours": result}, lines_of(result), as_json=options.json)


if __name__ == "__main__":
    main()
