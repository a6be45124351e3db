"""A subject over doubles whose passes take as long as a test says."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from strata_runtime.bench.cases import make_plan
from strata_runtime.bench.subject import Subject
from support.fake_engine import FakeModel, FakePool

VOCAB = 50


class Clock:
    """Stands still but for what passes add to it."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class TimedModel(FakeModel):
    """A pass takes `cost(tokens)` seconds."""

    def __init__(self, clock, cost):
        super().__init__(VOCAB, lambda _: np.zeros(VOCAB, np.float32))
        self._clock, self._cost = clock, cost

    def forward(self, ids, cache, *, logits="last", window=False):
        self._clock.now += self._cost(len(ids))
        return super().forward(ids, cache, logits=logits, window=window)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def subject_of(clock):
    """Make a subject whose passes take `cost(tokens)` seconds; its model is `subject.model`."""

    def make(cost, positions=40):
        def checksum(pool, data, size):
            clock.now += size / 1024

        model = TimedModel(clock, cost)
        native = SimpleNamespace(ISA="fake-isa", checksum=checksum)
        subject = Subject(model, native, {1: FakePool(()), 2: FakePool(())}, positions=positions, chunk=4, seed=7)
        subject.fill(8)
        model.passes.clear()
        subject.model = model
        return subject

    return make


@pytest.fixture
def plan_of():
    """Make a plan; what is not given is one decode of 2 tokens at context 0 with 1 thread."""

    def make(**asked):
        nothing = {"prompt": (), "decode": (), "window": (), "contexts": (0,), "threads": (1,), "rounds": 3, "seed": 7}
        return make_plan(**{**nothing, **(asked or {"decode": (2,)})})

    return make
