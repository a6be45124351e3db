"""What is measured, in which order, and what comes of it: on doubles with a clock of their own."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from strata_runtime.bench.cases import Case, check_fits
from strata_runtime.bench.columns import table
from strata_runtime.bench.parts import PART_TITLES, Part, Recorder, middle
from strata_runtime.bench.results import as_json, gather
from strata_runtime.bench.rounds import PARTS_ROUNDS, Measurement
from strata_runtime.bench.spread import Spread, paired
from strata_runtime.bench.subject import WINDOW_PASSES
from strata_runtime.bench.tables import lines
from strata_runtime.errors import UserError
from support.fake_engine import FakeModel


def test_a_plan_has_every_combination_once(plan_of):
    plan = plan_of(prompt=(5,), decode=(3,), window=(1, 2), contexts=(0, 8), threads=(2, 1))
    assert len(plan.cases) == len(set(plan.cases)) == 4 * 2 * 2
    assert Case("window", 2, 8, 1) in plan.cases
    assert plan.threads == (2, 1)
    assert plan.positions == 8 + 5


def test_a_plan_of_nothing_is_refused(plan_of):
    with pytest.raises(UserError, match="nothing is left to measure"):
        plan_of(window=())


def test_a_case_beyond_the_cache_is_named(plan_of):
    plan = plan_of(prompt=(5,), window=(8,), contexts=(0, 30))
    check_fits(plan, 38, "the maximum")
    with pytest.raises(
        UserError, match=r"--window 8 behind a context of 30 needs 38 positions, more than the maximum of 37"
    ):
        check_fits(plan, 37, "the maximum")


def test_the_spread_of_samples():
    assert Spread.of([3.0]) == Spread(3.0, 3.0, 3.0, 3.0, 3.0)
    assert Spread.of([5.0, 1.0, 2.0, 4.0, 3.0]) == Spread(median=3.0, low=2.0, high=4.0, least=1.0, most=5.0)
    assert Spread.of([1.0, 2.0]).as_json() == {
        "median": 1.5,
        "low_quartile": 1.25,
        "high_quartile": 1.75,
        "min": 1.0,
        "max": 2.0,
    }


def test_ratios_pair_rounds_and_leave_out_the_unfinished_one():
    assert paired([2.0, 9.0, 4.0], [1.0, 3.0]) == [2.0, 3.0]


@pytest.mark.parametrize(
    ("case", "passes", "seconds"),
    [
        (Case("prompt", 10, 0, 1), [(4, 0, "last"), (4, 4, "last"), (2, 8, "last")], 10.0),
        (Case("prompt", 3, 8, 2), [(3, 8, "last")], 3.0),
        (Case("decode", 3, 5, 1), [(1, 5, "last"), (1, 6, "last"), (1, 7, "last")], 1.0),
        (Case("window", 2, 8, 1), [(2, 8, "all")] * WINDOW_PASSES, 2.0),
    ],
)
def test_passes_of_a_case_and_the_seconds_of_one_unit(subject_of, clock, case, passes, seconds):
    subject = subject_of(lambda tokens: tokens)
    assert subject.seconds(case, 1, clock=clock) == seconds
    assert subject.model.passes == passes


def test_a_context_that_was_not_filled_is_refused(subject_of):
    with pytest.raises(ValueError, match="9 positions, of which 8 were filled"):
        subject_of(lambda _: 1).seconds(Case("decode", 1, 9, 1), 1)


def test_token_ids_depend_on_seed_and_turn_alone(subject_of, monkeypatch):
    seen = []
    forward = FakeModel.forward
    monkeypatch.setattr(
        FakeModel, "forward", lambda self, ids, *a, **k: (seen.append(ids.tolist()), forward(self, ids, *a, **k))[1]
    )
    subject = subject_of(lambda _: 1)
    seen.clear()
    for turn in (1, 2, 1):
        subject.seconds(Case("prompt", 4, 0, 1), turn)
    first, second, again = seen
    assert first == again != second


def test_rounds_interleave_and_the_first_does_not_count(subject_of, plan_of, clock):
    plan = plan_of(decode=(2,), prompt=(3,), rounds=4)
    subject = subject_of(lambda tokens: tokens)
    order = []
    run = subject.seconds
    subject.seconds = lambda case, turn, **more: order.append((turn, case.kind)) or run(case, turn, **more)
    measured = Measurement(plan, subject, buffer_bytes=1024)
    measured.run(clock=clock)
    assert order == [
        (0, "prompt"), (0, "decode"),
        (1, "decode"), (1, "prompt"),
        (2, "prompt"), (2, "decode"),
        (3, "decode"), (3, "prompt"),
        (4, "prompt"), (4, "decode"),
    ]  # fmt: skip
    assert list(measured.seconds.values()) == [[3.0] * 4, [1.0] * 4]
    assert measured.bandwidth == {1: [1024.0] * 4}


def test_progress_counts_every_sample(subject_of, plan_of, clock):
    seen = []
    Measurement(plan_of(), subject_of(lambda _: 1), 1024).run(lambda *where: seen.append(where), clock=clock)
    total = 1 + 3 + PARTS_ROUNDS
    assert seen == [(done, total) for done in range(1, total + 1)]


def test_what_was_measured_before_an_interruption_is_reported(subject_of, plan_of, clock):
    subject = subject_of(lambda tokens: tokens)
    measured = Measurement(plan_of(window=(1, 2)), subject, 1024)

    def tick():
        if clock.now > 80:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        measured.run(tick=tick, clock=clock)
    results = gather(measured, subject, {}, interrupted=True)
    assert [len(row.samples) for row in results.rows] == [2, 1]
    assert results.rows[1].over_one_token == Spread.of([2.0])
    assert any("interrupted before the end" in line for line in lines(results))


def test_results_say_rates_and_what_a_window_costs(subject_of, plan_of, clock):
    subject = subject_of(lambda tokens: 1 + tokens / 2)
    measured = Measurement(plan_of(prompt=(4,), decode=(2,), window=(1, 4)), subject, 1024)
    measured.run(clock=clock)
    prompt, decode, one, four = gather(measured, subject, {}, interrupted=False).rows
    assert (prompt.tokens_per_second, decode.tokens_per_second) == (4 / 3, 1 / 1.5)
    assert one.over_one_token == Spread.of([1.0])
    assert four.over_one_token == Spread.of([2.0])
    assert four.tokens_per_second == 4 / 3


def test_the_json_object_is_stable(subject_of, plan_of, clock):
    subject = subject_of(lambda tokens: tokens)
    measured = Measurement(plan_of(window=(1,)), subject, 1024)
    measured.run(clock=clock)
    found = as_json(gather(measured, subject, {"pool.threads": "1"}, interrupted=False))
    assert set(found) == {
        "schema", "version", "machine", "model", "settings", "rounds", "seed", "interrupted", "load_seconds",
        "first_token_seconds", "peak_bytes", "read_bandwidth", "results",
    }  # fmt: skip
    assert set(found["machine"]) == {"cpu", "usable_cpus", "level", "load_average"}
    assert set(found["model"]) == {
        "path", "family", "layers", "experts", "experts_per_token", "expert_format", "checkpoint_bytes",
        "expert_bytes", "dense_bytes", "head_bytes",
    }  # fmt: skip
    spread = {"median": 1.0, "low_quartile": 1.0, "high_quartile": 1.0, "min": 1.0, "max": 1.0}
    (row,) = found["results"]
    assert [part["name"] for part in row.pop("parts")] == list(PART_TITLES)
    assert row == {
        "kind": "window", "tokens": 1, "context": 0, "threads": 1, "seconds": spread, "samples": [1.0] * 3,
        "tokens_per_second": 1.0, "over_one_token": spread,
    }  # fmt: skip
    assert found["schema"] == 1
    assert found["settings"] == {"pool.threads": "1"}
    assert found["peak_bytes"] > 0


def test_parts_add_up_and_count_the_experts_that_were_touched(clock):
    def takes(seconds):
        def call(*_):
            clock.now += seconds

        return call

    native = SimpleNamespace(linear=takes(1.0), quantize="as it is")
    info = FakeModel(50, None).info
    recorder = Recorder(native, info, clock)
    executor = recorder.around(SimpleNamespace(laps=None, begin=takes(0.5), finish=takes(3.0), join_late=takes(1.0)))
    layer = SimpleNamespace(experts=SimpleNamespace(count=4))
    # Left out: one entry has no expert, another one no weight.
    buffers = SimpleNamespace(expert_ids=torch.tensor([[0, 2, 3], [2, -1, 0]], dtype=torch.int32))
    weights = torch.tensor([[0.5, 0.25, 0.0], [0.5, 0.25, 0.25]])
    for _ in range(3):
        recorder.linear(None, SimpleNamespace(rows=8), 2, 0, 0)
        executor.begin(layer, buffers, weights)
        executor.finish(layer, buffers, weights)
        executor.join_late(buffers)
        recorder.linear(None, SimpleNamespace(rows=info.vocab_size), 2, 0, 0)
    parts = recorder.parts(seconds=24.0, passes=3, units=3)
    assert parts == (
        Part("experts", 4.5, info.expert_bytes / 2),
        Part("linear", 1.0, info.dense_bytes),
        Part("head", 1.0, info.head_bytes),
        Part("rest", 1.5, 0),
    )
    assert recorder.quantize == "as it is"


def test_parts_of_several_samples_have_their_medians():
    samples = [(Part("experts", seconds, size), Part("rest", 1.0, 0)) for seconds, size in ((3, 10), (1, 30), (2, 20))]
    assert middle(samples) == (Part("experts", 2, 20), Part("rest", 1.0, 0))


def test_a_table_aligns_its_columns():
    assert table([("a", "bb"), ("long", "1")]) == ["a     bb", "----  --", "long   1"]
