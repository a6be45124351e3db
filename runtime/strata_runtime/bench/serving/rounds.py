"""Modes in turn, round by round, on one loaded model with a fresh batch each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from strata_runtime.batch.batch import Batch
from strata_runtime.bench.memory import peak_resident, reset_peak
from strata_runtime.bench.rounds import rotated
from strata_runtime.bench.serving.comparing import require_comparable, wrong_texts
from strata_runtime.bench.serving.figures import Sample
from strata_runtime.bench.serving.loaded import Loaded
from strata_runtime.bench.serving.modes import Mode
from strata_runtime.bench.serving.play import Felt, fit_streams, play
from strata_runtime.bench.serving.random_load import PATIENCE_S, LoadPlan, RandomLoad
from strata_runtime.bench.serving.scenarios import RANDOM, STREAM_PROMPT, Scenario, make_scenario
from strata_runtime.bench.serving.sizes import Room, Sizes, check_slots, cold_tokens, longest_tokens, stream_tokens
from strata_runtime.engine import Engine
from strata_runtime.progress import Progress

_TEXT = 65536  # token ids that prompts are cut from


@dataclass(frozen=True, slots=True)
class Plan:
    """`scenarios`: by name, in order; None where `load` is meant. Streams of 0 tokens are made long enough."""

    scenarios: Mapping[str, Scenario | None]
    load: LoadPlan
    modes: Sequence[Mode]
    rounds: int


def make_plan(names: Sequence[str], modes: Sequence[Mode], sizes: Sizes, room: Room) -> tuple[Plan, str]:
    """Return what is to be played, and a line on what is smaller than its name says. Raises `UserError`."""
    check_slots(names, sizes, room)
    if RANDOM in names:
        for mode in modes:
            require_comparable(mode.settings)
    scenarios: dict[str, Scenario | None] = dict.fromkeys(names)
    line = ""
    if cold := [name for name in names if name != RANDOM]:
        prompt, line = cold_tokens(sizes, room)
        own = stream_tokens(sizes, room)
        scenarios |= {
            name: make_scenario(name, streams=sizes.streams, prompt=prompt, warm_s=sizes.warm_s, stream_tokens=own)
            for name in cold
        }
    longest = longest_tokens(sizes, room) if RANDOM in names else 0
    load = LoadPlan(sizes.seconds, longest, sizes.compared, sizes.seed)
    return Plan(scenarios, load, modes, sizes.rounds), line


class Measurement:
    """The samples of a plan, by scenario, mode and round. What was measured stays when `run` is interrupted.

    `scenarios`: those that were played, with the length of their streams.
    """

    def __init__(self, plan: Plan, engine: Engine) -> None:
        self.plan = plan
        self.scenarios: dict[str, Scenario | None] = {}
        self.samples: dict[str, dict[str, list[Sample]]] = {
            name: {mode.name: [] for mode in plan.modes} for name in plan.scenarios
        }
        self._engine = engine
        draws = np.random.default_rng(plan.load.seed)
        ids = draws.integers(0, engine.info.vocab_size, _TEXT + plan.load.longest)
        self._text: list[int] = ids.tolist()

    def run(self, show: Callable[[str], Progress], tick: Callable[[], None]) -> None:
        """Take all samples.

        show: called with what begins, returns what takes (done, total) of it. tick: called ten times a second; both may
        raise to end here.
        """
        plan = self.plan
        for name, scenario in plan.scenarios.items():
            self.scenarios[name] = made = scenario and self._made(scenario, tick)
            for turn in range(plan.rounds):
                for mode in rotated(tuple(plan.modes), turn):
                    progress = show(f"{name}, {mode.name}, round {turn + 1} of {plan.rounds}:")
                    sample = self._loaded(mode, progress) if made is None else self._felt(mode, made, progress, tick)
                    self.samples[name][mode.name].append(sample)
                    if isinstance(sample, Loaded) and sample.is_cut:
                        raise KeyboardInterrupt

    def _made(self, scenario: Scenario, tick: Callable[[], None]) -> Scenario:
        """Return the scenario with streams that are long enough, if nobody said how long; warms up too."""
        with closing(Batch(self._engine, self.plan.modes[0].settings)) as batch:
            found = fit_streams(batch, scenario, self._text, self._engine.context - STREAM_PROMPT, tick)
        return found if scenario.stream_tokens == 0 else scenario

    def _felt(self, mode: Mode, scenario: Scenario, progress: Progress, tick: Callable[[], None]) -> Felt:
        gc.collect()
        is_own_peak = reset_peak()
        with closing(Batch(self._engine, mode.settings)) as batch:
            felt = play(batch, scenario, self._text, tick, progress)
        return replace(felt, peak_bytes=peak_resident() if is_own_peak else None)

    def _loaded(self, mode: Mode, progress: Progress) -> Loaded:
        gc.collect()
        is_own_peak = reset_peak()
        plan = self.plan.load
        with closing(Batch(self._engine, mode.settings)) as batch:
            load = RandomLoad(batch, self._text, plan, mode.settings.batch.slots).run(
                lambda seconds: progress(round(seconds), round(plan.seconds) + 1)
            )
            batch.close(PATIENCE_S)
            totals = batch.status().totals
        peak = peak_resident() if is_own_peak else None
        look = _unseen if load.is_cut else progress
        return Loaded.of(load, totals, wrong_texts(self._engine, load.sample, look), peak)


def _unseen(done: int, total: int) -> None:
    """Go on to the end: whoever ended the load still wants to know of it."""
