"""Results as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from strata_runtime.bench.columns import table
from strata_runtime.bench.machine import cpu_name, load_average, usable_cpus
from strata_runtime.bench.parts import PART_TITLES, Part, Parts
from strata_runtime.bench.results import Results, Row
from strata_runtime.bench.spread import Spread
from strata_runtime.model import ModelInfo
from strata_runtime.sizes import size

_UNITS = {"prompt": "ms a prompt", "decode": "ms a token", "window": "ms a window"}


def lines(results: Results) -> Iterator[str]:
    """Yield the whole report."""
    yield from _head(results)
    for kind, rows in groupby(results.rows, key=lambda row: row.case.kind):
        yield ""
        yield from table([_columns(kind), *map(_cells, rows)])
    if any(row.parts for row in results.rows):
        yield ""
        yield from _parts(results)


def _head(results: Results) -> Iterator[str]:
    info = results.info
    yield from surroundings(info, results.isa)
    yield f"loaded in {results.load_s:.2f} s, first token after {results.first_token_s:.2f} s"
    share = results.peak_bytes / info.checkpoint_bytes
    yield f"peak memory {size(results.peak_bytes)}, {share:.2f} times the checkpoint's size"
    for threads, rate in results.bandwidth.items():
        spread = f"{rate.least / 1e9:.1f} to {rate.most / 1e9:.1f}"
        yield f"memory reads {rate.median / 1e9:.1f} GB/s with {_threads(threads)} ({spread})"
    yield f"medians of {results.rounds} interleaved rounds" + ("; interrupted before the end" * results.interrupted)


def surroundings(info: ModelInfo, isa: str) -> Iterator[str]:
    """Yield lines with the model and the machine that figures belong to."""
    yield f"{info.path}: {info.title}, {info.layers} layers, experts in {info.expert_format}"
    yield f"{cpu_name()}, {usable_cpus()} usable CPUs, {isa}, load average {load_average():.1f}"


def _columns(kind: str) -> tuple[str, ...]:
    return (kind, "context", "threads", _UNITS[kind], "quartiles", "tokens/s", *(["over T=1"] * (kind == "window")))


def _cells(row: Row) -> tuple[str, ...]:
    case, ms = row.case, row.seconds
    last = () if case.kind != "window" else ("" if row.over_one_token is None else _times(row.over_one_token),)
    return (
        f"T={case.tokens}" if case.kind == "window" else f"{case.tokens} token{'s' * (case.tokens != 1)}",
        str(case.context),
        str(case.threads),
        f"{ms.median * 1e3:.2f}",
        f"{ms.low * 1e3:.2f}..{ms.high * 1e3:.2f}",
        f"{row.tokens_per_second:.1f}",
        *last,
    )


def _times(ratio: Spread) -> str:
    return f"{ratio.median:.2f}"


def _threads(count: int) -> str:
    return f"{count} thread{'s' * (count != 1)}"


def _parts(results: Results) -> Iterator[str]:
    yield "where the time goes; GB/s are those of weights, each read once per pass:"
    head = ("", *PART_TITLES, "experts MB", "GB/s", "of memory", "all MB", "GB/s", "of memory")
    yield from table([head, *(_parts_cells(row, row.parts, results) for row in results.rows if row.parts)])
    yield from (f"{name}: {title}" for name, title in PART_TITLES.items())
    yield "of memory: over the bandwidth above; more than 100% is what comes from the CPU's caches"


def _parts_cells(row: Row, parts: Parts, results: Results) -> tuple[str, ...]:
    whole = Part("rest", sum(part.seconds for part in parts), sum(part.bytes for part in parts))
    experts = next(part for part in parts if part.name == "experts")
    limit = results.bandwidth[row.case.threads].median
    shares = (f"{part.seconds / whole.seconds:.0%}" for part in parts)
    return (_name(row), *shares, *_rate(experts, limit), *_rate(whole, limit))


def _rate(part: Part, limit: float) -> tuple[str, str, str]:
    rate = part.bytes / part.seconds if part.seconds else 0.0
    return f"{part.bytes / 1e6:.1f}", f"{rate / 1e9:.1f}", f"{rate / limit:.0%}"


def _name(row: Row) -> str:
    case = row.case
    context = f" at {case.context}" if case.context else ""
    return f"{case.kind} {case.tokens}{context}, {_threads(case.threads)}"
