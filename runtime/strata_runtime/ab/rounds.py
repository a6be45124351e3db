"""Arms in turn, round by round, each time with an engine of its own."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import reduce

from strata_runtime.ab.arms import Arm
from strata_runtime.bench.memory import peak_resident, reset_peak
from strata_runtime.bench.rounds import rotated
from strata_runtime.engine import Engine
from strata_runtime.errors import UserError
from strata_runtime.layers.kv_cache import context_length
from strata_runtime.model import ModelInfo
from strata_runtime.params import MAX_SEED, SamplingParams
from strata_runtime.phases import WindowPhases
from strata_runtime.progress import Progress
from strata_runtime.request import GenerationResult, Prompt

Open = Callable[[Arm], AbstractContextManager[Engine]]
"""Loads an arm's engine."""


@dataclass(frozen=True, slots=True)
class Task:
    """What every engine does. `sampling` has a seed; each prompt takes the next one."""

    prompts: tuple[Prompt, ...]
    sampling: SamplingParams
    max_tokens: int
    ignore_eos: bool

    def sampling_of(self, at: int) -> SamplingParams:
        """Return the sampling of prompt number `at`."""
        assert self.sampling.seed is not None
        return replace(self.sampling, seed=(self.sampling.seed + at) % (MAX_SEED + 1))


@dataclass(frozen=True, slots=True)
class Sample:
    """What one engine did in one round, summed over the prompts.

    `tokens`: those drawn behind the first one of each text, in `decode_s` seconds and `windows` passes. `peak_bytes`:
    the largest resident set while the engine was there, None where the system does not tell. `phases`: where the time
    of passes went, None where it was not taken. `texts`: all tokens drawn, by prompt.
    """

    load_s: float
    prompt_tokens: int
    prompt_s: float
    tokens: int
    decode_s: float
    windows: int
    drafted: int
    accepted: int
    peak_bytes: int | None
    phases: WindowPhases | None
    texts: tuple[tuple[int, ...], ...]

    @property
    def decode_rate(self) -> float:
        """Tokens per second behind the prompt."""
        return self.tokens / self.decode_s

    @property
    def prompt_rate(self) -> float:
        """Tokens per second of the prompt, its last one's logits and the first draw with them."""
        return self.prompt_tokens / self.prompt_s


def _phases(results: Sequence[GenerationResult]) -> WindowPhases | None:
    taken = [result.phases for result in results if result.phases is not None]
    return reduce(WindowPhases.plus, taken) if taken else None


def _sample(results: Sequence[GenerationResult], peak_bytes: int | None) -> Sample:
    sample = Sample(
        load_s=results[0].timing.load_s,
        prompt_tokens=sum(result.usage.prompt_tokens for result in results),
        prompt_s=sum(result.timing.prompt_s for result in results),
        tokens=sum(max(0, result.usage.completion_tokens - 1) for result in results),
        decode_s=sum(result.timing.decode_s for result in results),
        windows=sum(result.acceptance.windows for result in results),
        drafted=sum(result.acceptance.drafted for result in results),
        accepted=sum(result.acceptance.accepted for result in results),
        peak_bytes=peak_bytes,
        phases=_phases(results),
        texts=tuple(result.token_ids for result in results),
    )
    if not sample.tokens:
        raise UserError("every text ends with its first token, so there is no decoding to measure: give --ignore-eos")
    return sample


class Comparison:
    """The samples of all arms. What was measured stays when `run` is interrupted.

    `info`: of the first arm's model, None before it was loaded.
    """

    def __init__(self, arms: Sequence[Arm], task: Task, rounds: int, open_engine: Open) -> None:
        self.arms, self.task, self.rounds = tuple(arms), task, rounds
        self.info: ModelInfo | None = None
        self._open = open_engine
        self._samples: dict[str, list[Sample]] = {arm.name: [] for arm in arms}

    @property
    def samples(self) -> dict[str, tuple[Sample, ...]]:
        """The samples of complete rounds, in order, by the arm's name."""
        complete = min(map(len, self._samples.values()))
        return {name: tuple(samples[:complete]) for name, samples in self._samples.items()}

    @property
    def is_measured(self) -> bool:
        """Whether a round is complete."""
        return all(self._samples.values())

    def warm_up(
        self,
        look: Callable[[Engine], object],
        progress: Progress | None = None,
        tick: Callable[[], None] = lambda: None,
    ) -> None:
        """Load every arm once, so that files are in memory and what is wrong shows now.

        look: gets every arm's engine. progress: called with (done, total) arms, tick: between passes; both may raise to
        end here.
        """
        for done, arm in enumerate(self.arms, 1):
            with self._open(arm) as engine:
                self.info = self.info or engine.info
                for prompt in self.task.prompts:
                    engine.generate(prompt, max_tokens=self.task.max_tokens)  # checks it, and reads nothing yet
                if done == 1:
                    self._check_room(engine)
                look(engine)
                self._text(engine, 0, 1, tick)
            if progress is not None:
                progress(done, len(self.arms))

    def _check_room(self, engine: Engine) -> None:
        """Raise `UserError` unless every arm's context holds every prompt and its text, going by the first engine."""
        lengths = [len(engine.encode(prompt)) for prompt in self.task.prompts]
        longest = max(lengths)
        needed = longest + self.task.max_tokens
        for arm in self.arms:
            try:
                room = context_length(arm.context, engine.info.context_length)
            except UserError as problem:
                raise UserError(f"--arm {arm.name}: {problem}") from None
            if needed > room:
                raising = " or raise engine.context" if room < engine.info.context_length else ""
                raise UserError(
                    f"--arm {arm.name}: prompt {lengths.index(longest) + 1} has {longest} tokens and --max-tokens is "
                    f"{self.task.max_tokens}, more than the context of {room}: lower --max-tokens{raising}"
                )

    def run(self, progress: Progress | None = None, tick: Callable[[], None] = lambda: None) -> None:
        """Take all samples.

        progress: called with (done, total) texts. tick: called between passes; both may raise to end here.
        """
        total, done = self.rounds * len(self.arms) * len(self.task.prompts), 0

        def advance() -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done, total)

        for turn in range(self.rounds):
            for arm in rotated(self.arms, turn):
                self._samples[arm.name].append(self._measure(arm, advance, tick))

    def _measure(self, arm: Arm, advance: Callable[[], None], tick: Callable[[], None]) -> Sample:
        gc.collect()  # what is left of the engine before would count as this one's
        is_own_peak = reset_peak()
        results = []
        with self._open(arm) as engine:
            # The first pass over fresh mappings pays for faults that have nothing to do with the arm.
            self._text(engine, 0, 1, tick)
            for at in range(len(self.task.prompts)):
                results.append(self._text(engine, at, self.task.max_tokens, tick))
                advance()
            return _sample(results, peak_resident() if is_own_peak else None)

    def _text(self, engine: Engine, at: int, max_tokens: int, tick: Callable[[], None]) -> GenerationResult:
        generation = engine.generate(
            self.task.prompts[at],
            self.task.sampling_of(at),
            max_tokens=max_tokens,
            ignore_eos=self.task.ignore_eos,
            progress=lambda *_: tick(),
        )
        for _ in generation:
            tick()
        return generation.result
