"""Results of a measurement as plain data: what `--json` writes, and what tables and plots are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from strata_runtime import __version__
from strata_runtime.bench.cases import Case
from strata_runtime.bench.machine import cpu_name, load_average, usable_cpus
from strata_runtime.bench.parts import Parts, middle
from strata_runtime.bench.rounds import Measurement
from strata_runtime.bench.spread import Spread, paired
from strata_runtime.bench.subject import Subject
from strata_runtime.model import ModelInfo

SCHEMA_VERSION = 1
"""Version of the JSON object; it grows when a key changes its meaning or goes away."""


@dataclass(frozen=True, slots=True)
class Row:
    """One case with its samples. `over_one_token` is a window's time over that of one token behind the same context."""

    case: Case
    seconds: Spread
    samples: tuple[float, ...]
    tokens_per_second: float
    over_one_token: Spread | None
    parts: Parts | None


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was measured.

    `bandwidth`: bytes per second by threads. `settings`: the knobs that are not at their default.
    """

    info: ModelInfo
    isa: str
    settings: Mapping[str, str]
    rounds: int
    seed: int
    load_s: float
    first_token_s: float
    peak_bytes: int
    bandwidth: Mapping[int, Spread]
    rows: tuple[Row, ...]
    interrupted: bool


def gather(measured: Measurement, subject: Subject, settings: Mapping[str, str], *, interrupted: bool) -> Results:
    """Summarise what there is; cases without a sample are left out."""
    return Results(
        info=subject.info,
        isa=subject.native.ISA,
        settings=settings,
        rounds=measured.plan.rounds,
        seed=measured.plan.seed,
        load_s=subject.load_s,
        first_token_s=subject.first_token_s,
        peak_bytes=measured.peak_bytes,
        bandwidth={threads: Spread.of(rates) for threads, rates in measured.bandwidth.items() if rates},
        rows=tuple(_row(case, measured) for case, samples in measured.seconds.items() if samples),
        interrupted=interrupted,
    )


def _row(case: Case, measured: Measurement) -> Row:
    samples = measured.seconds[case]
    seconds = Spread.of(samples)
    one = measured.seconds.get(case.one_token, []) if case.kind == "window" else []
    return Row(
        case=case,
        seconds=seconds,
        samples=tuple(samples),
        tokens_per_second=case.tokens_per_unit / seconds.median,
        over_one_token=Spread.of(paired(samples, one)) if one else None,
        parts=middle(measured.parts[case]) if measured.parts[case] else None,
    )


def as_json(results: Results) -> dict[str, Any]:
    """Return one JSON object. Times are in seconds, sizes in bytes, rates in bytes or tokens per second."""
    return {
        "schema": SCHEMA_VERSION,
        "version": __version__,
        "machine": machine_json(results.isa),
        "model": model_json(results.info),
        "settings": dict(results.settings),
        "rounds": results.rounds,
        "seed": results.seed,
        "interrupted": results.interrupted,
        "load_seconds": results.load_s,
        "first_token_seconds": results.first_token_s,
        "peak_bytes": results.peak_bytes,
        "read_bandwidth": [
            {"threads": threads, "bytes_per_second": spread.as_json()} for threads, spread in results.bandwidth.items()
        ],
        "results": [_row_json(row) for row in results.rows],
    }


def machine_json(isa: str) -> dict[str, Any]:
    """Return what a figure must name of the machine. `isa`: the level that the package chose."""
    return {
        "cpu": cpu_name(),
        "usable_cpus": usable_cpus(),
        "level": isa,
        "load_average": load_average(),
    }


def model_json(info: ModelInfo) -> dict[str, Any]:
    """Return what a figure must name of the model."""
    return {
        "path": str(info.path),
        "family": info.family,
        "layers": info.layers,
        "experts": info.experts,
        "experts_per_token": info.experts_per_token,
        "expert_format": info.expert_format,
        "checkpoint_bytes": info.checkpoint_bytes,
        "expert_bytes": info.expert_bytes,
        "dense_bytes": info.dense_bytes,
        "head_bytes": info.head_bytes,
    }


def _row_json(row: Row) -> dict[str, Any]:
    return {
        "kind": row.case.kind,
        "tokens": row.case.tokens,
        "context": row.case.context,
        "threads": row.case.threads,
        "seconds": row.seconds.as_json(),
        "samples": list(row.samples),
        "tokens_per_second": row.tokens_per_second,
        "over_one_token": None if row.over_one_token is None else row.over_one_token.as_json(),
        "parts": None
        if row.parts is None
        else [{"name": part.name, "seconds": part.seconds, "bytes": part.bytes} for part in row.parts],
    }
