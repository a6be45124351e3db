"""A comparison as plain data: what `--json` writes, and what tables and plots are made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from strata_runtime import __version__
from strata_runtime.ab.quality import Quality
from strata_runtime.ab.rounds import Comparison, Sample, Task
from strata_runtime.bench.results import machine_json, model_json
from strata_runtime.bench.spread import Spread, paired
from strata_runtime.model import ModelInfo
from strata_runtime.phases import PHASES, Phase

SCHEMA_VERSION = 1
"""Version of the JSON object; it grows when a key changes its meaning or goes away."""


@dataclass(frozen=True, slots=True)
class ArmResult:
    """One arm. Rates are tokens per second; a ratio is the arm's rate over the first arm's of the same round.

    `same_texts`: how many of all texts are the first arm's, token by token.
    """

    name: str
    settings: Mapping[str, str]
    samples: tuple[Sample, ...]
    decode: Spread
    prompt: Spread
    decode_ratios: tuple[float, ...]
    prompt_ratios: tuple[float, ...]
    same_texts: int

    @property
    def texts(self) -> int:
        """Number of texts over all rounds."""
        return sum(len(sample.texts) for sample in self.samples)

    @property
    def acceptance(self) -> float | None:
        """Share of drafts that were right, None without drafts."""
        drafted = sum(sample.drafted for sample in self.samples)
        return sum(sample.accepted for sample in self.samples) / drafted if drafted else None

    @property
    def tokens_per_window(self) -> float:
        """Tokens drawn per pass."""
        return sum(sample.tokens for sample in self.samples) / sum(sample.windows for sample in self.samples)

    @property
    def window_s(self) -> Spread:
        """Seconds of a pass with its drafting and draws, the mean of each round."""
        return Spread.of([sample.decode_s / sample.windows for sample in self.samples])

    @property
    def phases(self) -> dict[Phase, float] | None:
        """Seconds of a window by phase, medians of the rounds; None where they were not taken."""
        taken = [sample.phases for sample in self.samples if sample.phases is not None and sample.phases.windows]
        if not taken:
            return None
        return {phase: median(each.seconds()[phase] / each.windows for each in taken) for phase in PHASES}

    @property
    def load(self) -> Spread:
        """Seconds of loading."""
        return Spread.of([sample.load_s for sample in self.samples])

    @property
    def peak_bytes(self) -> int | None:
        """The largest resident set over all rounds, None where the system does not tell."""
        return max((sample.peak_bytes for sample in self.samples if sample.peak_bytes is not None), default=None)


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was measured. `arms`: in the order that was asked for, empty before a round was complete."""

    info: ModelInfo
    isa: str
    task: Task
    rounds: int
    arms: tuple[ArmResult, ...]
    quality: Quality | None
    interrupted: bool

    @property
    def complete(self) -> int:
        """Number of rounds that are complete."""
        return len(self.arms[0].samples) if self.arms else 0


def gather(compared: Comparison, info: ModelInfo, isa: str, quality: Quality | None, *, interrupted: bool) -> Results:
    """Summarise the rounds that are complete."""
    samples = compared.samples
    first = samples[compared.arms[0].name]
    arms = tuple(_arm(arm.name, arm.settings, samples[arm.name], first) for arm in compared.arms if samples[arm.name])
    return Results(info, isa, compared.task, compared.rounds, arms, quality, interrupted)


def _arm(name: str, settings: Mapping[str, str], samples: Sequence[Sample], first: Sequence[Sample]) -> ArmResult:
    decode, prompt = ([getattr(each, rate) for each in samples] for rate in ("decode_rate", "prompt_rate"))
    pairs = [
        (a, b) for one, other in zip(samples, first, strict=True) for a, b in zip(one.texts, other.texts, strict=True)
    ]
    return ArmResult(
        name=name,
        settings=settings,
        samples=tuple(samples),
        decode=Spread.of(decode),
        prompt=Spread.of(prompt),
        decode_ratios=tuple(paired(decode, [each.decode_rate for each in first])),
        prompt_ratios=tuple(paired(prompt, [each.prompt_rate for each in first])),
        same_texts=sum(a == b for a, b in pairs),
    )


def as_json(results: Results) -> dict[str, Any]:
    """Return one JSON object. Times are in seconds, sizes in bytes, rates in tokens per second."""
    task, quality = results.task, results.quality
    return {
        "schema": SCHEMA_VERSION,
        "version": __version__,
        "machine": machine_json(results.isa),
        "model": model_json(results.info),
        "prompts": len(task.prompts),
        "sampling": asdict(task.sampling),
        "max_tokens": task.max_tokens,
        "ignore_eos": task.ignore_eos,
        "rounds": results.rounds,
        "complete_rounds": results.complete,
        "interrupted": results.interrupted,
        "arms": [_arm_json(arm) for arm in results.arms],
        "quality": None if quality is None else _quality_json(quality),
    }


def _arm_json(arm: ArmResult) -> dict[str, Any]:
    return {
        "name": arm.name,
        "settings": dict(arm.settings),
        "decode_tokens_per_second": arm.decode.as_json(),
        "prompt_tokens_per_second": arm.prompt.as_json(),
        "decode_over_first": _ratios_json(arm.decode_ratios),
        "prompt_over_first": _ratios_json(arm.prompt_ratios),
        "acceptance": arm.acceptance,
        "tokens_per_window": arm.tokens_per_window,
        "window_seconds": arm.window_s.as_json(),
        "phase_seconds": arm.phases,
        "load_seconds": arm.load.as_json(),
        "peak_bytes": arm.peak_bytes,
        "texts": arm.texts,
        "same_texts": arm.same_texts,
        "rounds": [_sample_json(sample) for sample in arm.samples],
    }


def _ratios_json(ratios: Sequence[float]) -> dict[str, Any]:
    return {**Spread.of(ratios).as_json(), "ratios": list(ratios)}


def _sample_json(sample: Sample) -> dict[str, Any]:
    return {
        "load_seconds": sample.load_s,
        "prompt_tokens": sample.prompt_tokens,
        "prompt_seconds": sample.prompt_s,
        "decode_tokens": sample.tokens,
        "decode_seconds": sample.decode_s,
        "windows": sample.windows,
        "drafted": sample.drafted,
        "accepted": sample.accepted,
        "peak_bytes": sample.peak_bytes,
    }


def _quality_json(quality: Quality) -> dict[str, Any]:
    return {
        "sequences": len(quality.sequences or ()),
        "positions": quality.positions,
        "window": quality.window,
        "floor": None if quality.floor is None else asdict(quality.floor),
        "scale": None if quality.scale is None else {"name": quality.scale_name, **asdict(quality.scale)},
        "why_no_scale": quality.why_no_scale or None,
        "arms": {name: asdict(divergence) for name, divergence in quality.arms.items()},
    }
