"""A loaded model that cases are run on: pools of several sizes over one set of weights and one cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import Literal, Self, cast

import numpy as np
import torch

from strata_runtime.bench.cases import Case
from strata_runtime.bench.parts import Parts, Recorder
from strata_runtime.knobs import Resolution
from strata_runtime.knobs.scope import scope
from strata_runtime.model import Model, ModelInfo
from strata_runtime.native import NativeModule, Pool
from strata_runtime.progress import Progress
from strata_runtime.provider import Provider, make_pool

WINDOW_PASSES = 8
"""Passes that one sample of a window takes the mean of, each over other tokens."""

Clock = Callable[[], float]
Tick = Callable[[], None]
"""Called between passes; it may raise to end a sample."""


@dataclass(frozen=True, slots=True)
class _Pass:
    at: int
    ids: torch.Tensor
    logits: Literal["last", "all"]
    window: bool = True


class Subject:
    """A model, a cache, and a pool for every number of threads. For one thread; close it at the end.

    `load_s` and `first_token_s`: seconds from the begin of loading to its end, and to the first token's logits.
    """

    def __init__(
        self, model: Model, native: NativeModule, pools: Mapping[int, Pool], *, positions: int, chunk: int, seed: int
    ) -> None:
        """`positions`: what the cache holds. `chunk`: most tokens of a pass. `seed`: of all token ids."""
        self.native, self.pools = native, pools
        self.load_s = self.first_token_s = 0.0
        self._model, self._chunk, self._seed = model, chunk, seed
        self._cache = model.new_cache(positions)
        self._filled = 0

    @staticmethod
    def load(
        path: Path,
        provider: Provider,
        resolution: Resolution,
        *,
        threads: Sequence[int],
        positions: Callable[[ModelInfo], int],
        seed: int,
        progress: Progress | None = None,
        clock: Clock = perf_counter,
    ) -> Subject:
        """Load a model, start the pools and read one token.

        positions: says what the cache must hold; it may raise when the model cannot hold as much. Raises `UserError`
        as loading does, and when the system refuses the threads.
        """
        started = clock()
        settings = provider.settings_type.from_values(resolution.values)
        with ExitStack() as undo:
            model = Model.load(path, provider, settings, progress)
            undo.callback(model.close)
            pools: dict[int, Pool] = {}
            for count in threads:
                with scope(resolution, provider.settings_type, pool_threads=count) as scoped:
                    pools[count] = make_pool(provider, scoped)
                undo.callback(pools[count].close)
            subject = Subject(
                model,
                provider.native,
                pools,
                positions=positions(model.info),
                chunk=settings.engine.prompt_chunk,
                seed=seed,
            )
            subject.load_s = clock() - started
            subject.seconds(Case("decode", 1, 0, threads[0]), 0)
            subject.first_token_s = clock() - started
            undo.pop_all()
        return subject

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Stop all workers and free the model. Idempotent."""
        for pool in self.pools.values():
            pool.close()
        self._model.close()

    @property
    def info(self) -> ModelInfo:
        """What was loaded."""
        return self._model.info

    @property
    def has_parts(self) -> bool:
        """Whether `parts` can be told: a GPU's windows are one launch."""
        return self._model.is_on_pool

    def fill(self, positions: int, progress: Progress | None = None) -> None:
        """Fill the cache with tokens, so that cases up to this context can be run."""
        passes = self._reading(0, self._ids(positions, "context", 0), "last")
        with self._model.computing(self.native, self.pools[max(self.pools)]):
            for each in passes:
                if progress is not None:
                    progress(each.at, positions)
                self._forward(each)
        if progress is not None:
            progress(positions, positions)
        self._filled = max(self._filled, positions)

    def seconds(self, case: Case, turn: int, *, tick: Tick | None = None, clock: Clock = perf_counter) -> float:
        """Run a case; return the seconds of one unit: the prompt, the mean token, or the mean pass of a window.

        turn: other tokens for every number. Raises `ValueError` for a context that was not filled.
        """
        passes = self._passes(case, turn)
        with self._model.computing(self.native, self.pools[case.threads]):
            return self._run(passes, tick, clock) / _units(case)

    def parts(self, case: Case, turn: int, *, tick: Tick | None = None, clock: Clock = perf_counter) -> Parts:
        """Run a case as `seconds` does, with a clock around native calls; return the parts of one unit."""
        passes = self._passes(case, turn)
        recorder = Recorder(self.native, self.info, clock)
        with self._model.computing(cast(NativeModule, recorder), self.pools[case.threads], recorder.around):
            taken = self._run(passes, tick, clock)
        return recorder.parts(taken, len(passes), _units(case))

    def _run(self, passes: Sequence[_Pass], tick: Tick | None, clock: Clock) -> float:
        started = clock()
        for each in passes:
            self._forward(each)
            if tick is not None:
                tick()
        return clock() - started

    def _forward(self, each: _Pass) -> None:
        self._cache.length = each.at
        self._model.forward(each.ids, self._cache, logits=each.logits, window=each.window)

    def _passes(self, case: Case, turn: int) -> list[_Pass]:
        if case.context > self._filled:
            raise ValueError(f"a context of {case.context} positions, of which {self._filled} were filled")
        match case.kind:
            case "prompt":
                return list(self._reading(case.context, self._ids(case.tokens, case.kind, turn), "last"))
            case "decode":
                ids = self._ids(case.tokens, case.kind, turn)
                return [_Pass(case.context + at, ids[at : at + 1], "last") for at in range(case.tokens)]
            case "window":
                rows = self._ids(WINDOW_PASSES * case.tokens, case.kind, turn).view(WINDOW_PASSES, -1)
                return [_Pass(case.context, ids, "all") for ids in rows]

    def _reading(self, at: int, ids: torch.Tensor, logits: Literal["last", "all"]) -> Iterator[_Pass]:
        for start in range(0, len(ids), self._chunk):
            yield _Pass(at + start, ids[start : start + self._chunk], logits, window=False)

    def _ids(self, count: int, kind: str, turn: int) -> torch.Tensor:
        generator = np.random.default_rng([self._seed, turn, *kind.encode()])
        return torch.from_numpy(generator.integers(0, self.info.vocab_size, count))


def _units(case: Case) -> int:
    return {"prompt": 1, "decode": case.tokens, "window": WINDOW_PASSES}[case.kind]
