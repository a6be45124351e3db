"""What tables compare: figures of one run, by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median

from strata_runtime.bench.serving.loaded import Loaded
from strata_runtime.bench.serving.play import Felt
from strata_runtime.bench.spread import Spread

Sample = Felt | Loaded
"""What came of one run."""

Figures = Mapping[str, float | None]
"""None: there is no such figure. Names begin with `stream N: ` where they are one stream's."""

_MIB = 1 << 20


def figures_of(sample: Sample) -> Figures:
    """Return the figures of one run."""
    return _of_load(sample) if isinstance(sample, Loaded) else _of_scenario(sample)


def _of_scenario(felt: Felt) -> Figures:
    streams = felt.streams
    kept = [stream.during / stream.before for stream in streams if stream.before and stream.during is not None]
    felt_pauses = [stream.pause for stream in streams if stream.pause is not None]
    return {
        "longest pause, s": max(felt_pauses) if len(felt_pauses) == len(streams) else None,
        "rate while over before": median(kept) if kept else None,
        "joiner's first token, s": felt.joiner,
        "question's first token, s": felt.question,
        "total, s": felt.total,
        "processor time, s": felt.cpu,
        "give-ways": felt.give_ways,
        "peak memory, MiB": None if felt.peak_bytes is None else felt.peak_bytes / _MIB,
        **{
            f"stream {number}: {name}": value
            for number, stream in enumerate(streams, 1)
            for name, value in (
                ("longest pause, s", stream.pause),
                ("tokens/s before", stream.before),
                ("tokens/s while", stream.during),
                ("tokens/s after", stream.after),
            )
        },
    }


def _of_load(load: Loaded) -> Figures:
    return {
        "longest pause, s": load.pause,
        "tokens/s": load.rate,
        "first token, median, s": load.first_median,
        "first token, 99th percentile, s": load.first_99,
        "requests": load.requests,
        "clients that left": load.left,
        "lost": load.lost,
        "failed": len(load.failures),
        "texts compared": load.compared,
        "texts that differ": load.wrong,
        "reads beside windows": load.concurrent_reads,
        "give-ways": load.give_ways,
        "memory grows, MiB a minute": None if load.slope is None else load.slope * 60 / _MIB,
        "peak memory, MiB": None if load.peak_bytes is None else load.peak_bytes / _MIB,
    }


def spreads(samples: Sequence[Figures]) -> dict[str, Spread]:
    """Summarise the figures that every one of the samples has."""
    names = [name for name in samples[0] if all(each[name] is not None for each in samples)] if samples else []
    return {name: Spread.of([value for each in samples if (value := each[name]) is not None]) for name in names}


def ratios(over: Sequence[Figures], under: Sequence[Figures]) -> dict[str, tuple[float, ...]]:
    """Return each figure's ratio in every round that both have, where none is without it or over zero."""
    found: dict[str, tuple[float, ...]] = {}
    for name in over[0] if over and under else ():
        pairs = [(a[name], b[name]) for a, b in zip(over, under, strict=False)]
        known = [a / b for a, b in pairs if a is not None and b]
        if len(known) == len(pairs):
            found[name] = tuple(known)
    return found
