"""What requests feel of each other: what is played, what is counted, what must not be, and what is refused."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest

from strata_runtime.batch import Batch
from strata_runtime.bench.serving.clients import Client
from strata_runtime.bench.serving.comparing import require_comparable, wrong_texts
from strata_runtime.bench.serving.figures import figures_of, ratios, spreads
from strata_runtime.bench.serving.loaded import Loaded
from strata_runtime.bench.serving.play import Felt, FeltStream, Prompts, fit_streams, play
from strata_runtime.bench.serving.random_load import LoadPlan, RandomLoad
from strata_runtime.bench.serving.scenarios import SCENARIOS, make_scenario
from strata_runtime.bench.serving.sizes import Room, Sizes, check_slots, cold_tokens, longest_tokens, slots_of
from strata_runtime.bench.serving.steadiness import Steadiness
from strata_runtime.errors import UserError
from strata_runtime.knobs.scope import scope
from strata_runtime.layers.outcome import Outcome
from support.fake_engine import FakeModel, Settings, hashed, load_engine
from support.text_models import write_folder

VOCAB = 300
TEXT = np.random.default_rng(1).integers(0, VOCAB, 900).tolist()
PASS_S = 0.02
MODES = {"off": {}, "beside": {"piped_concurrent": True}}


class Slow(FakeModel):
    """A pass of a prompt takes a while; windows take next to none."""

    def forward(self, ids, cache, **more):
        time.sleep(PASS_S)
        return super().forward(ids, cache, **more)


class Mixing(FakeModel):
    """A text that shares a window is another one than alone."""

    def joint_window(self, parts, states):
        outcome = super().joint_window(parts, states)
        if len(parts) > 1:
            return Outcome.on_cpu(outcome.logits.flip(-1))
        return outcome


@pytest.fixture
def engine_of(monkeypatch, tmp_path):
    def make(kind=FakeModel, **options):
        model = kind(VOCAB, hashed(VOCAB), context_length=512)
        options = {"batch_slots": 4, "engine_prompt_chunk": 16, **options}
        return load_engine(monkeypatch, write_folder(tmp_path / "model"), model, **options)

    return make


def nothing(*_):
    pass


def scenario(name, **sizes):
    return make_scenario(name, **{"streams": 2, "prompt": 160, "warm_s": 0.1, "stream_tokens": 200, **sizes})


def test_scenarios_are_what_their_names_say():
    cold, followup, two = (scenario(name) for name in SCENARIOS[:3])
    assert (cold.joiners, cold.question) == ((160,), 0)
    assert (followup.joiners, followup.question > 0) == ((160,), True)
    assert (two.joiners, two.question) == ((160, 160), 0)
    assert [slots_of([name], 2) for name in SCENARIOS] == [3, 4, 4, 4]


def test_prompts_begin_at_different_places_and_may_be_longer_than_the_text():
    prompts = Prompts(list(range(100)))
    first, second, third = prompts(10), prompts(10), prompts(250)
    assert first == list(range(10))
    assert second[0] != first[0]
    assert len(third) == 250


@pytest.mark.parametrize("name", SCENARIOS[:3])
def test_streams_stand_still_for_a_read_unless_it_is_beside_them(engine_of, name):
    engine = engine_of(Slow)
    felt = {}
    for mode, knobs in MODES.items():
        with scope(engine.resolution, Settings, **knobs) as settings:
            batch = Batch(engine, settings)
            felt[mode] = play(batch, scenario(name), TEXT, nothing)
            batch.close()
    off, beside = felt["off"], felt["beside"]
    assert min(stream.pause or 0 for stream in off.streams) >= 10 * PASS_S  # ten passes of 16 tokens
    assert sum(stream.during for stream in beside.streams) > 2 * sum(stream.during for stream in off.streams)
    for each in felt.values():
        assert each.total >= each.joiner >= 10 * PASS_S
        assert (each.question is not None) == (name == "followup")
        for stream in each.streams:
            assert stream.before > 0
            assert sum(at >= 0 for at, _ in stream.pauses) <= 200
            assert stream.pause == max(seconds for _, seconds in stream.pauses)
            ends = [at + seconds for at, seconds in stream.pauses]
            assert ends == sorted(ends)
            assert ends[0] > 0


def test_streams_are_made_long_enough_for_the_reads(engine_of):
    batch = Batch(engine_of(Slow))
    shape = scenario("two_joiners", stream_tokens=0)
    found = fit_streams(batch, shape, TEXT, 400, nothing)
    assert 32 < found.stream_tokens <= 400
    assert replace(found, stream_tokens=0) == shape
    assert fit_streams(batch, shape, TEXT, 20, nothing).stream_tokens == 20
    batch.close()


def test_a_request_that_fails_ends_the_scenario_with_its_reason(engine_of):
    class Broken(FakeModel):
        def forward(self, ids, cache, **more):
            if cache.length > 100:
                raise UserError("the cache is full")
            return super().forward(ids, cache, **more)

    batch = Batch(engine_of(Broken))
    with pytest.raises(UserError, match="a request of the scenario cold32k failed: the cache is full"):
        play(batch, scenario("cold32k", stream_tokens=30), TEXT, nothing)
    batch.close()


def test_a_rate_is_that_of_the_time_in_which_the_text_went_on():
    client = Client((), 0)
    client.times = [1.0, 2.0, 3.0, 5.0]
    assert client.rate(1.0, 3.0) == 1.0
    assert client.rate(3.0, 9.0) == 0.5
    assert client.rate(5.0, 9.0) is None
    assert client.pauses(2.5) == [(2.0, 1.0), (3.0, 2.0)]


def loaded(engine, **changes):
    plan = LoadPlan(**{"seconds": 0.5, "longest": 100, "compared": 20, "seed": 3, **changes})
    batch = Batch(engine)
    load = RandomLoad(batch, TEXT, plan, 4).run(nothing)
    batch.close(10)
    return Loaded.of(load, batch.status().totals, wrong_texts(engine, load.sample, nothing), None)


@pytest.mark.parametrize("mode", MODES)
def test_a_random_load_has_all_that_requests_do_and_nothing_is_lost(engine_of, mode):
    found = loaded(engine_of(**MODES[mode]))
    assert found.requests == found.finished + found.left > 20
    assert found.left > 0
    assert found.compared == 20
    assert list(found.problems()) == []
    assert (found.concurrent_reads > 0) == (mode == "beside")
    assert len(found.pauses) == 20
    assert found.first_99 >= found.first_median > 0


def test_its_rate_is_of_the_time_in_which_clients_ask(engine_of):
    batch = Batch(engine_of(Slow))
    load = RandomLoad(batch, TEXT, LoadPlan(0.2, 100, 1000, 3), 4).run(nothing)
    batch.close(10)
    times = [at for client in load.sample for at in client.times]
    assert len(load.sample) == load.requests
    assert load.rate == sum(at <= load.began + load.seconds for at in times) / load.seconds
    assert load.tokens < len(times)


def test_texts_that_were_mixed_are_found(engine_of):
    found = loaded(engine_of(Mixing))
    assert found.wrong > 0
    assert list(found.problems()) == [f"{found.wrong} of 20 texts are not those of the same requests alone"]


def test_a_load_that_is_interrupted_is_summed_up(engine_of):
    batch = Batch(engine := engine_of())

    def tick(seconds):
        if seconds > 0.1:
            raise KeyboardInterrupt

    load = RandomLoad(batch, TEXT, LoadPlan(60, 100, 5, 1), 4).run(tick)
    batch.close(10)
    found = Loaded.of(load, batch.status().totals, wrong_texts(engine, load.sample, nothing), None)
    assert found.is_cut
    assert found.requests > 0
    assert list(found.problems()) == []


def test_what_must_not_be_is_named(engine_of):
    bad = replace(loaded(engine_of()), lost=1, failures=("no memory", "again"), wrong=2, is_flat=False, slope=1 << 20)
    said = list(bad.problems())
    assert len(said) == 4
    assert said[0] == f"1 of {bad.requests} requests came to no end"
    assert "the first one: no memory" in said[1]
    assert said[3] == "memory grew by 60.0 MiB a minute in the second half"


@pytest.mark.parametrize(
    ("sizes", "flat"),
    [
        ([100] * 61, True),
        ([0] * 10 + [100] * 51, True),  # it filled up, and stays
        ([100 + second for second in range(61)], False),
        ([100 + second for second in range(15)], None),  # too short to say
    ],
)
def test_memory_is_flat_when_it_does_not_grow_in_the_second_half(sizes, flat):
    found = Steadiness()
    for second, mib in enumerate(sizes):
        found.look(float(second), 0.9, lambda mib=mib: mib << 20)
    assert found.is_flat is flat
    assert len(found.seen) == len(sizes)


def test_ratios_pair_the_modes_of_a_round_and_leave_out_what_is_not_there():
    over = [{"total": 4.0, "question": None, "give-ways": 1.0}, {"total": 9.0, "question": None, "give-ways": 2.0}]
    under = [{"total": 2.0, "question": None, "give-ways": 0.0}, {"total": 3.0, "question": None, "give-ways": 0.0}]
    assert ratios(over, under) == {"total": (2.0, 3.0)}
    assert ratios(over, under[:1]) == {"total": (2.0,)}
    assert spreads(over)["total"].median == 6.5
    assert "question" not in spreads(over)


def test_figures_of_a_stream_that_ended_before_the_read_are_not_there(engine_of):
    batch = Batch(engine_of(Slow))
    figures = figures_of(play(batch, scenario("cold32k", stream_tokens=2), TEXT, nothing))
    batch.close()
    assert figures["stream 1: tokens/s after"] is None
    assert figures["joiner's first token, s"] > 0


def room(context, slots=4):
    return Room(slots, context, "engine.context", {})


def sizes(**given):
    shape = {"prompt": None, "streams": 2, "stream_tokens": None, "warm_s": 1, "seconds": 1, "compared": 1, "seed": 0}
    return Sizes(**{**shape, "rounds": 1, **given})


def test_prompts_are_as_long_as_the_name_says_or_the_longest_that_fits():
    assert cold_tokens(sizes(), room(40000)) == (32768, "")
    tokens, line = cold_tokens(sizes(), room(8192))
    assert tokens == 8176
    assert line == "engine.context holds 8192 tokens: prompts have 8176 instead of 32768"
    assert cold_tokens(sizes(prompt=100), room(8192)) == (100, "")
    assert longest_tokens(sizes(), room(8192)) == 1500
    assert longest_tokens(sizes(), room(1000)) == 960


@pytest.mark.parametrize(
    ("asked", "place", "says"),
    [
        ({"prompt": 8177}, room(8192), "--prompt-tokens 8177: with an answer of 16, engine.context of 8192 holds 8176"),
        ({"prompt": 8}, room(8192), "--prompt-tokens 8: so few are read within a window; give at least 9"),
        ({}, room(30), "engine.context holds 30 tokens: too few for a prompt and an answer of 16"),
    ],
)
def test_prompts_that_do_not_fit_are_refused(asked, place, says):
    with pytest.raises(UserError, match=says):
        cold_tokens(sizes(**asked), place)


def test_scenarios_need_a_slot_for_everybody_and_a_random_load_takes_any_number():
    check_slots(["random"], sizes(), room(512, slots=1))
    check_slots(["cold32k"], sizes(), room(512, slots=3))
    with pytest.raises(UserError, match=r"batch\.slots is 3: 2 streams and the prompts that join them need 4"):
        check_slots(["followup"], sizes(), room(512, slots=3))


@pytest.mark.parametrize(
    ("knobs", "says"),
    [({"batch_prefix": "on"}, "batch.prefix=on may change"), ({"piped_piece": 8}, "piped.piece=8 must not be less")],
)
def test_texts_are_not_compared_where_they_may_differ(engine_of, knobs, says):
    engine = engine_of()
    require_comparable(engine.settings)
    with scope(engine.resolution, Settings, **knobs) as settings, pytest.raises(UserError, match=says):
        require_comparable(settings)


def test_a_stream_that_ended_before_prompts_joined_felt_no_pause() -> None:
    ended = FeltStream(None, 9.0, None, None, ())
    going = FeltStream(0.5, 9.0, 3.0, 8.0, ((0.1, 0.5),))
    some, every = (figures_of(Felt((stream, going), 1.0, None, 2.0)) for stream in (ended, going))
    assert (some["longest pause, s"], every["longest pause, s"]) == (None, 0.5)
