"""The order of arms, what counts, and what comes of it: on doubles whose times a test says."""

from __future__ import annotations

import numpy as np
import pytest

from strata_runtime.ab.arms import Arm
from strata_runtime.ab.quality import Quality
from strata_runtime.ab.results import as_json, gather
from strata_runtime.ab.rounds import Comparison, Task
from strata_runtime.ab.tables import lines
from strata_runtime.bench.memory import peak_resident, reset_peak
from strata_runtime.bench.spread import Spread
from strata_runtime.errors import UserError
from strata_runtime.params import SamplingParams
from strata_runtime.phases import WindowPhases
from strata_runtime.request import Acceptance, GenerationResult, Timing, Usage
from strata_runtime.sampling import log_softmax
from support.fake_engine import FakeModel

ARMS = (Arm("plain", {}, {}), Arm("fast", {"x": "1"}, {"x": "1"}), Arm("odd", {"y": "2"}, {"y": "2"}))
SPEED = {"plain": 1.0, "fast": 2.0, "odd": 0.5}
TASK = Task(("a", "b"), SamplingParams(temperature=0, seed=5), 5, True)


class Generation:
    """Chunks, and their result."""

    def __init__(self, result, chunks):
        self.result, self.chunks = result, chunks

    def __iter__(self):
        return self.chunks


class Engine:
    """Draws tokens that depend on the prompt alone but for the arm `odd`; keeps a log of what it is asked for."""

    def __init__(self, arm, log, slow):
        self.arm, self.log, self.slow = arm, log, slow
        self.info = FakeModel(50, None).info

    def __enter__(self):
        self.log.append(("load", self.arm))
        return self

    def __exit__(self, *_):
        self.log.append(("close", self.arm))

    def encode(self, prompt):
        return [1] * 10

    def generate(self, prompt, sampling=None, *, max_tokens, ignore_eos=False, progress=None):
        is_fast = self.arm == "fast"
        result = GenerationResult(
            text="",
            token_ids=(ord("a" if self.arm == "odd" else prompt),) * max_tokens,
            finish_reason="length",
            usage=Usage(10, max_tokens),
            timing=Timing(0.25, 0.5, self.slow * (max_tokens - 1) / SPEED[self.arm], 0.0),
            acceptance=Acceptance("mtp", 2, 4 * is_fast, 3 * is_fast, 2.0),
            seed=0,
            phases=WindowPhases(2, mixer=1.0, experts=3.0 / SPEED[self.arm]) if self.arm != "odd" else None,
        )

        def chunks():
            self.log.append((prompt, sampling.seed, max_tokens, ignore_eos))
            progress(0, 10)
            yield from range(max_tokens)

        return Generation(result, chunks())

    def check_ids(self, ids):
        return ids

    def logprob_rows(self, ids, window):
        shift = {"plain": 0.0, "fast": 0.0, "odd": 1.0, SCALE.name: 0.1}[self.arm]
        table = np.random.default_rng(0).standard_normal((50, 50), np.float32)
        other = np.random.default_rng(1).standard_normal((50, 50), np.float32)
        for start in range(0, len(ids), window):
            yield log_softmax((table + shift * other)[list(ids[start : start + window])])


SCALE = Arm("plain, skipping", {}, {})


def judged(make_scale=lambda _: SCALE):
    return Quality(3, make_scale)


@pytest.fixture
def log():
    return []


@pytest.fixture
def compare(log):
    """Make a comparison over doubles. `slow` is what every round multiplies decode times with."""

    def make(rounds=2, slow=(1.0,), arms=ARMS, task=TASK):
        loads = iter(range(1000))

        def load(arm):
            turn = next(loads) // len(arms) - 1
            return Engine(arm.name, log, slow[max(turn, 0) % len(slow)])

        return Comparison(arms, task, rounds, load)

    return make


def results_of(compared, quality=None, interrupted=False):
    return gather(compared, compared.info, "fake-isa", quality, interrupted=interrupted)


def test_arms_take_turns_each_time_in_a_fresh_engine(compare, log):
    compared = compare(rounds=3)
    compared.warm_up(lambda _: None)
    assert [name for what, name, *_ in log if what == "load"] == ["plain", "fast", "odd"]
    log.clear()
    compared.run()
    loads = [name for what, name, *_ in log if what == "load"]
    assert loads == ["plain", "fast", "odd", "fast", "odd", "plain", "odd", "plain", "fast"]
    closes = [name for what, name, *_ in log if what == "close"]
    assert closes == loads
    # One read of the first prompt that does not count, then all of them, each with a seed of its own.
    assert log[:5] == [("load", "plain"), ("a", 5, 1, True), ("a", 5, 5, True), ("b", 6, 5, True), ("close", "plain")]


def test_rates_and_ratios_pair_the_samples_of_a_round(compare):
    compared = compare(rounds=3, slow=(1.0, 10.0, 4.0))
    compared.warm_up(lambda _: None)
    compared.run()
    plain, fast, odd = results_of(compared).arms
    assert plain.decode == Spread.of([1.0, 0.1, 0.25])
    # However busy the machine was, it was so for all arms.
    assert (plain.decode_ratios, fast.decode_ratios, odd.decode_ratios) == ((1.0,) * 3, (2.0,) * 3, (0.5,) * 3)
    assert fast.prompt_ratios == (1.0,) * 3
    assert (plain.acceptance, fast.acceptance) == (None, 0.75)
    assert fast.tokens_per_window == 8 / 4
    assert fast.window_s.least == 4 / 2 / 4 * 2
    assert [(arm.same_texts, arm.texts) for arm in (plain, fast, odd)] == [(6, 6), (6, 6), (3, 6)]


def test_an_interruption_leaves_the_rounds_that_are_complete(compare):
    compared = compare(rounds=9)
    compared.warm_up(lambda _: None)

    def progress(done, total):
        assert total == 9 * 3 * 2
        if done == 2 * 6 + 5:  # in the middle of the third round's last arm
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared.run(progress)
    found = results_of(compared, interrupted=True)
    assert [len(arm.samples) for arm in found.arms] == [2, 2, 2]
    assert "medians of 2 of 9 interleaved rounds; interrupted before the end" in list(lines(found))


def test_an_interruption_before_the_first_round_leaves_nothing(compare):
    compared = compare()
    compared.warm_up(lambda _: None)
    ticks = iter(range(1000))

    def tick():
        if next(ticks) == 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compared.run(tick=tick)
    assert not compared.is_measured
    found = results_of(compared, interrupted=True)
    assert found.arms == ()
    assert list(lines(found))[-1] == "interrupted before a round was complete"
    assert as_json(found)["complete_rounds"] == 0


def test_texts_of_one_token_are_no_measurement(compare):
    compared = compare(task=Task(("a",), TASK.sampling, 1, False))
    compared.warm_up(lambda _: None)
    with pytest.raises(UserError, match=r"every text ends with its first token.*--ignore-eos"):
        compared.run()


def test_distance_is_to_the_first_arm_beside_its_own_repetition(compare, log):
    compared, quality = compare(), judged()
    compared.warm_up(lambda engine: quality.look(engine, lambda _: [[3, 1, 4, 1, 5], [9, 2]]))
    compared.run()
    log.clear()
    steps = []
    quality.run(ARMS, compared._open, lambda *where: steps.append(where))
    assert [name for what, name in log if what == "load"] == ["plain", "plain", SCALE.name, "fast", "odd"]
    assert steps[:3] == [(3, 7), (5, 7), (7, 7)]
    assert quality.floor.overall.mean_kl == quality.arms["fast"].overall.mean_kl == 0
    assert quality.arms["odd"].overall.mean_kl > 0.01
    assert quality.arms["odd"].guessed == 0
    shown = list(lines(results_of(compared, quality)))
    assert "mean KL(plain || arm) by ranges of positions, 7 in 2 texts, windows of 3" in shown
    assert [line.split("  ")[0] for line in shown[-4:]] == ["plain again", SCALE.name, "fast", "odd"]
    assert 0 < quality.scale.overall.mean_kl < quality.arms["odd"].overall.mean_kl


def refusing(_):
    raise UserError("the first arm has it itself")


@pytest.mark.parametrize(
    ("make_scale", "why"),
    [
        (refusing, "the first arm has it itself"),
        (lambda _: ARMS[1], "'fast' leaves nothing out of these windows"),
    ],
)
def test_without_a_scale_a_line_says_why(compare, make_scale, why):
    compared, quality = compare(), judged(make_scale)
    compared.warm_up(lambda engine: quality.look(engine, lambda _: [[3, 1, 4, 1, 5]]))
    compared.run()
    quality.run(ARMS, compared._open)
    shown = list(lines(results_of(compared, quality)))
    assert shown[-1] == f"no arm for the scale: {why}"
    assert [line.split("  ")[0] for line in shown[-4:-1]] == ["plain again", "fast", "odd"]
    found = as_json(results_of(compared, quality))["quality"]
    assert (found["scale"], found["why_no_scale"]) == (None, why)


def test_texts_without_tokens_are_refused(compare):
    quality = judged()
    with pytest.raises(UserError, match="hold no tokens"):
        compare().warm_up(lambda engine: quality.look(engine, lambda _: [[]]))


def test_the_table_shows_every_ratio(compare):
    compared = compare(rounds=2)
    compared.warm_up(lambda _: None)
    compared.run()
    shown = list(lines(results_of(compared)))
    phases = shown.index(next(line for line in shown if line.startswith("ms of a window")))
    assert [line.split() for line in shown[phases + 2 : phases + 5]] == [
        ["plain", "500.000", "0.000", "1500.000", "0.000", "0.000", "0.000"],
        ["fast", "500.000", "0.000", "750.000", "0.000", "0.000", "0.000"],
        ["odd", *"------"],
    ]
    shown = shown[:phases]
    assert "plain: the defaults" in shown
    assert "fast: x=1" in shown
    rows = {line.split("  ")[0]: line.split() for line in shown}
    assert rows["fast, decode"][2:] == ["2.000", "2.000", "2.000"]
    assert rows["odd, prompt"][2:] == ["1.000", "1.000", "1.000"]
    assert rows["fast"][1:6] == ["2.0", "2.0..2.0", "1000.000", "2.00", "75.0%"]


def test_the_json_object_is_stable(compare):
    compared, quality = compare(), judged()
    compared.warm_up(lambda engine: quality.look(engine, lambda _: [[3, 1, 4]]))
    compared.run()
    quality.run(ARMS, compared._open)
    found = as_json(results_of(compared, quality))
    assert set(found) == {
        "schema", "version", "machine", "model", "prompts", "sampling", "max_tokens", "ignore_eos", "rounds",
        "complete_rounds", "interrupted", "arms", "quality",
    }  # fmt: skip
    arm = found["arms"][1]
    assert set(arm) == {
        "name", "settings", "decode_tokens_per_second", "prompt_tokens_per_second", "decode_over_first",
        "prompt_over_first", "acceptance", "tokens_per_window", "window_seconds", "load_seconds", "peak_bytes",
        "texts", "same_texts", "rounds", "phase_seconds",
    }  # fmt: skip
    assert arm["phase_seconds"]["experts"] == 0.75
    assert arm["decode_over_first"]["ratios"] == [2.0, 2.0]
    assert arm["rounds"][0]["decode_tokens"] == 8
    assert arm["rounds"][0]["decode_seconds"] == 4.0
    assert set(found["quality"]) == {
        "sequences", "positions", "window", "floor", "scale", "why_no_scale", "arms",
    }  # fmt: skip
    assert (found["quality"]["scale"]["name"], found["quality"]["why_no_scale"]) == (SCALE.name, None)
    assert set(found["quality"]["arms"]) == {"fast", "odd"}


def test_peak_memory_can_be_counted_from_now():
    block = np.ones(64 << 20, np.uint8)
    with_block = peak_resident()
    del block
    assert reset_peak()
    assert peak_resident() < with_block - (48 << 20)
