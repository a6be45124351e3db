"""One kernel instance at a time, by its canonical name: time, bytes per second, and share of the read bandwidth.

    python bench/kernels.py --kernel rows_dot.q4_k.int8_256.t5.avx512vnni
    python bench/kernels.py --kernel 'rows_dot.*.avx2' --json

The kernels package is the one that `strata` would use; STRATA_PROVIDER_PATH names another. Micro-kernels run on one
thread, and their share is of what one thread reads; kernels of the pool use `--threads`. Weights and inputs take
`--mebibytes`, so more than the caches hold. Bytes are those that a kernel must read and write, each once. Every call
is timed beside a read of as many bytes, so that what else the machine does touches both.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from common import report
from device_jobs import DEVICE_JOBS
from kernel_jobs import POOL_JOBS, POOL_KERNELS, Bench, Job
from layer_jobs import LAYER_JOBS

from strata_gen.model.kernel_name import Grammar, KernelName
from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.bench.columns import table
from strata_runtime.provider import find_provider

JOBS = {**POOL_JOBS, **DEVICE_JOBS, **LAYER_JOBS}


@dataclass(frozen=True)
class Result:
    """One row: time of a call, bytes that it read and wrote, those per second, and a read beside it by as many threads.

    `share` is the median over the rounds of one rate over the other.
    """

    name: str
    microseconds: float
    bytes: int
    gigabytes_per_second: float
    read_gigabytes_per_second: float
    share: float


def selected(package: Any, pattern: str) -> Iterator[KernelName]:
    """Yield the instances of the package that a name, its begin or a pattern with `*` stands for."""
    levels = package.native.kernel_names()
    held = {name for names in levels.values() for name in names}
    grammar = Grammar(load_specs((specs_root(),)))
    for name in grammar.matching(pattern):
        is_micro = grammar.kernels[name.kernel].is_micro
        is_held = str(name) in held if is_micro else not name.isa or name.isa in levels
        if is_held and name.kernel in JOBS:
            yield name


def seconds(job: Job) -> float:
    """Time one call."""
    start = time.perf_counter()
    job.call()
    return time.perf_counter() - start


def measure(bench: Bench, name: KernelName, rounds: int) -> Result:
    """Time one instance."""
    job = JOBS[name.kernel](bench, name)
    read = bench.read(bench.threads if name.kernel in POOL_KERNELS else 1)
    for each in (job, read):
        each.call()
    times = [(seconds(job), seconds(read)) for _ in range(rounds)]
    own = job.bytes / statistics.median(time for time, _ in times)
    reading = read.bytes / statistics.median(time for _, time in times)
    share = statistics.median(job.bytes / time / (read.bytes / beside) for time, beside in times)
    return Result(str(name), job.bytes / own * 1e6, job.bytes, own / 1e9, reading / 1e9, share)


def cells(row: Result) -> tuple[str, ...]:
    """Return a line of the table."""
    rates = (row.gigabytes_per_second, row.read_gigabytes_per_second)
    return (row.name, f"{row.microseconds:.0f}", *(f"{rate:.1f}" for rate in rates), f"{row.share:.0%}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernel", default="*", help="canonical name, its begin, or a pattern with '*'; default: all")
    parser.add_argument("--list", action="store_true", help="print the names that would be timed, and end")
    parser.add_argument("--threads", type=int, default=0, help="workers of the pool; 0: one per physical core")
    parser.add_argument("--mebibytes", type=float, default=256, help="memory of one instance's weights or inputs")
    parser.add_argument("--rounds", type=int, default=9, help="timed calls, of which the median counts")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    arguments = parser.parse_args()
    package: Any = find_provider(os.environ)
    names = list(selected(package, arguments.kernel))
    if not names:
        parser.error(f"no kernel of {package.name} is named '{arguments.kernel}'")
    if arguments.list:
        print(*names, sep="\n")
        return
    bench = Bench(package, arguments.threads, int(arguments.mebibytes * (1 << 20)))
    runnable = [name for name in names if not name.isa or name.isa in package.native.ISAS]
    left_out = [str(name) for name in names if name not in runnable]
    results = [measure(bench, name, arguments.rounds) for name in runnable]
    rows = [("kernel", "us", "GB/s", "read GB/s", "of read"), *map(cells, results)]
    note = [f"not runnable on this CPU: {len(left_out)} instances"] if left_out else []
    result = {"results": [asdict(result) for result in results], "not_runnable_here": left_out}
    report(result, ["", *table(rows), *note], as_json=arguments.json)


if __name__ == "__main__":
    main()
