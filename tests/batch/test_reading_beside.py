"""Prompts that are read beside windows, or in pieces between them: turns, give-way, and what goes wrong."""

import os
import threading

import pytest

from strata_runtime import SamplingParams
from strata_runtime.batch import Batch, Failure
from strata_runtime.batch.beside import keep_off
from strata_runtime.batch.job import Job
from strata_runtime.batch.turns import next_read
from strata_runtime.errors import UserError
from strata_runtime.request import Request
from support.batches import PATIENCE, VOCAB, Gated, ask, prompt, same
from support.fake_engine import FakeModel, hashed

GREEDY = SamplingParams(temperature=0, seed=1)
BESIDE = {"piped_concurrent": True}
PIECES = {"piped_piece": 16}
SHORT = {"max_tokens": 3, "ignore_eos": True}


def job(number, tokens, at=0, let_first=0):
    made = Job(number, Request(tuple(range(tokens))), print, None, 0.0)
    made.at, made.let_first = at, let_first
    return made


def test_the_first_prompt_is_read_first():
    first, second = job(1, 100), job(2, 10)
    assert next_read(None, [], 5) is None
    assert next_read(None, [first, second], None) is first
    assert next_read(first, [second], None) is second


def test_a_read_gives_way_to_a_prompt_that_is_shorter_than_its_rest():
    long = job(1, 100, at=40)
    assert next_read(long, [long, job(2, 50)], 11) is long, "not by enough"
    short = job(3, 49)
    assert next_read(long, [long, short], 11) is short
    assert next_read(short, [long, short], 11) is short, "and goes on when that is read"
    assert next_read(short, [long], 11) is long


def test_a_prompt_longer_than_the_rest_waits():
    nearly = job(1, 100, at=90)
    assert next_read(nearly, [nearly, job(2, 11)], 1) is nearly


def test_no_read_lets_more_go_first_than_it_has_itself():
    long = job(1, 100, at=10, let_first=80)
    assert next_read(long, [long, job(2, 20)], 5).number == 2
    assert next_read(long, [long, job(2, 21)], 5) is long


def test_streams_go_on_while_a_prompt_is_read_beside_them(start, alone):
    model = Gated()
    batch, _ = start(model, **BESIDE)
    stream = ask(batch, prompt(4), GREEDY, max_tokens=300, ignore_eos=True)
    model.let(1)
    stream.wait(lambda client: len(client.tokens) > 3)
    joiner = ask(batch, prompt(40), GREEDY, **SHORT)
    for _ in range(2):
        model.wait()
    before = len(stream.tokens)
    stream.wait(lambda client: len(client.tokens) > before + 5)
    assert [slot.state for slot in batch.status().slots] == ["decoding", "reading", "free"]
    assert joiner.told == []
    model.let(20)
    same(joiner, alone(prompt(40), GREEDY, **SHORT))
    same(stream, alone(prompt(4), GREEDY, max_tokens=300, ignore_eos=True))
    assert batch.status().totals.concurrent_reads == 1


@pytest.mark.parametrize(("share", "waits"), [(1.0, False), (0.1, True)])
def test_windows_take_their_share_of_the_time_beside_a_read(start, monkeypatch, share, waits):
    pauses, wait = [], Batch._wait

    def noting(batch, pause):
        pauses.append(pause)
        wait(batch, pause)

    monkeypatch.setattr(Batch, "_wait", noting)
    model = Gated()
    batch, _ = start(model, **BESIDE, piped_stream_share=share)
    stream = ask(batch, prompt(4), GREEDY, max_tokens=300, ignore_eos=True)
    model.let(1)
    stream.wait(lambda client: len(client.tokens) > 3)
    ask(batch, prompt(40), GREEDY, **SHORT)
    for _ in range(2):
        model.wait()
    before = len(stream.tokens)
    pauses.clear()
    stream.wait(lambda client: len(client.tokens) > before + 5)
    assert all((pause > 0) == waits for pause in pauses[:5])
    model.let(20)


def test_passes_that_fit_a_window_are_never_on_the_lane_of_reads(start, alone):
    lanes = {}

    class Noting(FakeModel):
        def forward(self, ids, cache, **more):
            lanes.setdefault(self.lane, []).append(len(ids))
            return super().forward(ids, cache, **more)

    batch, _ = start(Noting(VOCAB, hashed(VOCAB), 512), batch_prefix="off", **BESIDE)
    for tokens in (5, 8, 9, 20, 40):
        same(ask(batch, prompt(tokens), GREEDY, **SHORT), alone(prompt(tokens), GREEDY, **SHORT))
    assert lanes == {0: [5, 8, 4, 8], 1: [9, 16, 16, 16]}


class OnDevice(FakeModel):
    """A network that does not compute on the pool, and what it was asked for: (lane, what)."""

    def __init__(self, problem=None, fails_at=0):
        super().__init__(VOCAB, hashed(VOCAB), 512)
        self.is_on_pool = False
        self.asked, self.problem, self.fails_at = [], problem, fails_at

    def forward(self, ids, cache, **more):
        self.asked.append((self.lane, "read"))
        if self.problem is not None and self.lane and self.asked.count((self.lane, "read")) > self.fails_at:
            raise self.problem
        return super().forward(ids, cache, **more)

    def settle(self):
        self.asked.append((self.lane, "settled"))


def test_a_read_begins_behind_what_windows_put_into_its_cache_and_ends_when_all_has_run(start, alone):
    model = OnDevice()
    batch, _ = start(model, **BESIDE)
    same(ask(batch, prompt(40), GREEDY, **SHORT), alone(prompt(40), GREEDY, **SHORT))
    warm_up, rest = model.asked[:2], model.asked[2:]
    assert warm_up == [(1, "read"), (1, "settled")]
    assert rest[:4] == [(0, "settled"), (1, "read"), (1, "read"), (1, "settled")]


def test_a_read_that_fails_leaves_nothing_running_behind_it(start):
    model = OnDevice(UserError("no memory"), fails_at=2)
    batch, _ = start(model, **BESIDE)
    client = ask(batch, prompt(40), GREEDY, **SHORT).wait()
    assert isinstance(client.finish, Failure)
    assert model.asked[-3:] == [(1, "read"), (1, "read"), (1, "settled")]


def test_where_reads_cannot_be_made_ready_prompts_are_read_between_windows(start, alone, caplog):
    model = OnDevice(UserError("no memory"))
    batch, _ = start(model, **BESIDE)
    same(ask(batch, prompt(40), GREEDY, **SHORT), alone(prompt(40), GREEDY, **SHORT))
    assert batch.status().totals.concurrent_reads == 0
    assert [record.message for record in caplog.records] == ["piped.concurrent is off: no memory"]


def test_streams_go_on_between_pieces(start):
    model = Gated()
    batch, _ = start(model, **PIECES)
    stream = ask(batch, prompt(4), GREEDY, max_tokens=300, ignore_eos=True)
    model.wait()
    model.let(1)
    stream.wait(lambda client: len(client.tokens) > 3)
    ask(batch, prompt(64), GREEDY, **SHORT)
    for _ in range(4):
        model.wait()
        before = len(stream.tokens)
        model.let(1)
        stream.wait(lambda client, before=before: len(client.tokens) > before)
    assert batch.status().totals.concurrent_reads == 0


@pytest.mark.parametrize("mode", [BESIDE, PIECES], ids=["beside", "pieces"])
def test_a_short_prompt_goes_first_and_the_long_one_keeps_what_was_read(start, alone, mode):
    model = Gated()
    batch, _ = start(model, batch_slots=2, **mode)
    ended = []

    def note(client, _):
        if client.has_ended:
            ended.append(client.ticket.id)

    long = ask(batch, prompt(160), GREEDY, note, **SHORT)
    model.wait()
    short = ask(batch, prompt(20, 1), GREEDY, note, **SHORT)
    model.let(100)
    same(short, alone(prompt(20, 1), GREEDY, **SHORT))
    same(long, alone(prompt(160), GREEDY, **SHORT))
    assert ended == [short.ticket.id, long.ticket.id]
    assert batch.status().totals.give_ways == 1
    assert sum(tokens for tokens, *_ in model.passes) == 180, "nothing is read twice"


def test_a_second_prompt_longer_than_the_rest_of_the_first_waits(start):
    model = Gated()
    batch, _ = start(model, batch_slots=2, **BESIDE)
    first = ask(batch, prompt(32), GREEDY, **SHORT)
    model.wait()
    second = ask(batch, prompt(64, 1), GREEDY, **SHORT)
    model.let(100)
    first.wait()
    second.wait()
    assert batch.status().totals.give_ways == 0
    assert [at for _, at, _ in model.passes[:2]] == [0, 16]


@pytest.mark.parametrize("mode", [{}, BESIDE, PIECES], ids=["off", "beside", "pieces"])
def test_two_long_prompts_and_a_short_one_on_two_slots(start, alone, mode):
    batch, _ = start(batch_slots=2, **mode)
    asked = [(ask(batch, prompt(tokens, tokens), GREEDY, **SHORT), tokens) for tokens in (300, 301, 12)]
    for client, tokens in asked:
        same(client, alone(prompt(tokens, tokens), GREEDY, **SHORT))


def test_a_client_that_leaves_in_the_middle_of_its_read_frees_its_slot(start, alone):
    model = Gated()
    batch, _ = start(model, batch_slots=1 + 1, **BESIDE)
    gone = ask(batch, prompt(300), GREEDY, **SHORT)
    model.wait()
    gone.ticket.cancel()
    assert gone.wait().finish == "cancelled"
    model.let(1)
    others = [ask(batch, prompt(12, seed), GREEDY, **SHORT) for seed in range(4)]
    model.let(20)
    for seed, client in enumerate(others):
        same(client, alone(prompt(12, seed), GREEDY, **SHORT))
    assert gone.ticket.usage.completion_tokens == 0
    assert len([at for tokens, at, _ in model.passes if tokens == 16]) == 1, "its read ended behind the pass it was at"


def test_cancelling_outside_a_read_stops_no_read(start, alone):
    """What gives way is the read that is going on: there is none to be stopped here, and the next one is whole."""
    batch, _ = start(batch_slots=2, **BESIDE)
    for _ in range(3):
        client = ask(batch, prompt(3), GREEDY, lambda client, _: client.ticket and client.ticket.cancel(), **SHORT)
        client.ticket.cancel()
        assert client.wait().finish in ("cancelled", "length")
        same(ask(batch, prompt(200), GREEDY, **SHORT), alone(prompt(200), GREEDY, **SHORT))
    assert batch.status().totals.give_ways == 0


@pytest.mark.parametrize("mode", [{}, BESIDE, PIECES], ids=["off", "beside", "pieces"])
def test_a_read_that_fails_ends_only_its_own_request(start, alone, mode):
    class Failing(FakeModel):
        def forward(self, ids, cache, **more):
            if cache.ids[:1] == [7] and cache.length >= 32 and not more.get("window"):
                raise RuntimeError("no memory left on the device")
            return super().forward(ids, cache, **more)

    batch, _ = start(Failing(VOCAB, hashed(VOCAB), 512), **mode)
    stream = ask(batch, prompt(20), GREEDY, max_tokens=60, ignore_eos=True)
    bad = ask(batch, [7, *prompt(99)], GREEDY, **SHORT).wait()
    assert bad.finish == Failure("RuntimeError: no memory left on the device")
    same(stream, alone(prompt(20), GREEDY, max_tokens=60, ignore_eos=True))
    same(ask(batch, prompt(90, 1), GREEDY, **SHORT), alone(prompt(90, 1), GREEDY, **SHORT))
    ask(batch, [7, *prompt(99)], GREEDY, **SHORT).wait()
    assert batch.status().totals.cached_tokens == 0, "what is left in its slot counts for nothing"


@pytest.mark.parametrize("streams", [0, 1])
def test_a_read_that_stands_still_is_given_up_also_when_nothing_decodes(start, alone, streams):
    class Stuck(FakeModel):
        gate = threading.Event()

        def forward(self, ids, cache, **more):
            if self.lane == 1 and int(ids[0]) == 7:
                self.thread = threading.current_thread()
                self.gate.wait(PATIENCE)
            return super().forward(ids, cache, **more)

    model = Stuck(VOCAB, hashed(VOCAB), 512)
    batch, _ = start(model, verify_timeout=20_000_000, **BESIDE)
    others = [ask(batch, prompt(4), GREEDY, max_tokens=500, ignore_eos=True) for _ in range(streams)]
    bad = ask(batch, [7, *prompt(60)], GREEDY, **SHORT).wait()
    assert bad.finish.message == "no layer of the prompt was read within 0.12 seconds"
    same(ask(batch, prompt(90), GREEDY, **SHORT), alone(prompt(90), GREEDY, **SHORT))
    for client in others:
        same(client, alone(prompt(4), GREEDY, max_tokens=500, ignore_eos=True))
    model.gate.set()
    model.thread.join(PATIENCE)
    assert not model.thread.is_alive(), "it ends once it can"
    again = ask(batch, [7, *prompt(60)], GREEDY, **SHORT)
    same(again, alone([7, *prompt(60)], GREEDY, **SHORT))
    assert again.ticket.usage.cached_tokens == 0, "what it read late is in no slot"
    assert batch.status().totals.failed == 1


def test_the_thread_that_reads_keeps_off_the_cores_of_workers():
    allowed = os.sched_getaffinity(0)
    found = {}

    def look(name, workers):
        os.sched_setaffinity(0, {min(allowed)})  # as a thread that inherits one core's mask
        keep_off(frozenset(workers))
        found[name] = os.sched_getaffinity(0)

    for name, workers in {"none": (), "one": {min(allowed)}, "all": allowed}.items():
        thread = threading.Thread(target=look, args=(name, workers))
        thread.start()
        thread.join()
    assert found["none"] == found["all"] == allowed
    assert found["one"] == (allowed - {min(allowed)} or allowed)
    assert os.sched_getaffinity(0) == allowed


def test_what_reads_on_a_device_need_is_made_before_the_first_one(start):
    model = FakeModel(VOCAB, hashed(VOCAB), 512)
    model.is_on_pool = False
    batch, _ = start(model, **BESIDE)
    ask(batch, prompt(40), GREEDY, **SHORT).wait()
    assert [(tokens, at) for tokens, at, _ in model.passes] == [(16, 512 - 16), (16, 0), (16, 16), (8, 32)]
