"""A measurement as plain data: what `--json` writes, and what tables and plots are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from strata_runtime import __version__
from strata_runtime.bench.results import machine_json, model_json
from strata_runtime.bench.serving.figures import Figures, Sample, figures_of, ratios, spreads
from strata_runtime.bench.serving.loaded import Loaded
from strata_runtime.bench.serving.modes import MODE_KNOBS, Mode
from strata_runtime.bench.serving.random_load import LoadPlan
from strata_runtime.bench.serving.rounds import Measurement
from strata_runtime.bench.serving.scenarios import ANSWER, Scenario
from strata_runtime.bench.spread import Spread
from strata_runtime.engine import Engine
from strata_runtime.knobs.grammar import show
from strata_runtime.model import ModelInfo

SCHEMA_VERSION = 1
"""Version of the JSON object; it grows when a key changes its meaning or goes away."""


@dataclass(frozen=True, slots=True)
class ModeResult:
    """One mode. `ratios`: of each figure over the first mode's of the same round; none for that mode itself."""

    mode: Mode
    samples: tuple[Sample, ...]
    figures: Mapping[str, Spread]
    ratios: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario: what was played, and the modes that have a sample."""

    name: str
    played: Scenario | LoadPlan
    modes: tuple[ModeResult, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that was measured. `settings`: the knobs that are not at their default; modes set `piped.*`."""

    info: ModelInfo
    isa: str
    settings: Mapping[str, str]
    slots: int
    context: int
    seed: int
    rounds: int
    scenarios: tuple[ScenarioResult, ...]
    interrupted: bool

    def problems(self) -> Iterator[str]:
        """Yield what must not be, of random loads."""
        for scenario in self.scenarios:
            for each in scenario.modes:
                for sample in each.samples:
                    if isinstance(sample, Loaded):
                        yield from (f"{scenario.name}, {each.mode.name}: {problem}" for problem in sample.problems())


def gather(measured: Measurement, engine: Engine, isa: str, *, interrupted: bool) -> Results:
    """Summarise what there is; scenarios and modes without a sample are left out."""
    made = [_scenario(name, played or measured.plan.load, measured) for name, played in measured.scenarios.items()]
    resolution = engine.resolution
    return Results(
        info=engine.info,
        isa=isa,
        settings={
            knob.name: show(knob, resolution.values[knob.name])
            for knob in resolution.differing()
            if knob.name not in MODE_KNOBS
        },
        slots=engine.settings.batch.slots,
        context=engine.context,
        seed=measured.plan.load.seed,
        rounds=measured.plan.rounds,
        scenarios=tuple(each for each in made if each.modes),
        interrupted=interrupted,
    )


def _scenario(name: str, played: Scenario | LoadPlan, measured: Measurement) -> ScenarioResult:
    samples = measured.samples[name]
    figures = {mode.name: [figures_of(sample) for sample in samples[mode.name]] for mode in measured.plan.modes}
    first = measured.plan.modes[0]
    modes = (_mode(mode, samples[mode.name], figures, first) for mode in measured.plan.modes if samples[mode.name])
    return ScenarioResult(name, played, tuple(modes))


def _mode(mode: Mode, samples: Sequence[Sample], figures: Mapping[str, Sequence[Figures]], first: Mode) -> ModeResult:
    own = figures[mode.name]
    over = {} if mode is first else ratios(own, figures[first.name])
    return ModeResult(mode, tuple(samples), spreads(own), over)


def as_json(results: Results) -> dict[str, Any]:
    """Return one JSON object. Times are in seconds, sizes in bytes, rates in tokens per second, unless a name says."""
    return {
        "schema": SCHEMA_VERSION,
        "version": __version__,
        "machine": machine_json(results.isa),
        "model": model_json(results.info),
        "settings": dict(results.settings),
        "slots": results.slots,
        "context": results.context,
        "seed": results.seed,
        "rounds": results.rounds,
        "interrupted": results.interrupted,
        "problems": list(results.problems()),
        "scenarios": [_scenario_json(each) for each in results.scenarios],
    }


def _scenario_json(result: ScenarioResult) -> dict[str, Any]:
    answer = {"answer_tokens": ANSWER} if isinstance(result.played, Scenario) else {}
    return {
        "played": {**asdict(result.played), **answer, "name": result.name},
        "over": result.modes[0].mode.name,
        "modes": [_mode_json(each) for each in result.modes],
    }


def _mode_json(result: ModeResult) -> dict[str, Any]:
    return {
        "name": result.mode.name,
        "piece": result.mode.piece,
        "figures": {name: spread.as_json() for name, spread in result.figures.items()},
        "ratios": {
            name: {**Spread.of(found).as_json(), "ratios": list(found)} for name, found in result.ratios.items()
        },
        "rounds": [asdict(sample) for sample in result.samples],
    }
