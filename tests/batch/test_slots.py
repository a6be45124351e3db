"""Requests in slots, over a network of any logits: each gives what it gives alone, however prompts are read."""

import random
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from strata_runtime import SamplingParams, UserError
from strata_runtime.batch import Failure, QueueFull
from strata_runtime.batch.job import Job
from strata_runtime.batch.prefixes import Prefixes
from strata_runtime.request import Request
from support.batches import VOCAB, Gated, ask, prompt, same
from support.fake_engine import FakeCache, FakeModel, hashed

GREEDY = SamplingParams(temperature=0, seed=1)
DRAWN = SamplingParams(temperature=1, seed=3, top_k=50, repetition_penalty=1.3)


@pytest.mark.parametrize("draft", [{}, {"window_draft": "ngram"}, {"window_draft": "ngram", "window_width": 3}])
@pytest.mark.parametrize("slots", [1, 2, 4, 11])
def test_requests_that_share_windows_give_what_they_give_alone(start, alone, slots, draft, mode):
    batch, _ = start(batch_slots=slots, **draft, **mode)
    asked = []
    for seed in range(14):
        request = {"max_tokens": 5 + seed % 9, "ignore_eos": bool(seed % 3), "stop": ("e",) if seed % 5 == 0 else ()}
        ids, sampling = prompt(1 + 11 * (seed % 6), seed), (GREEDY, DRAWN)[seed % 2]
        asked.append((ask(batch, ids, sampling, **request), alone(ids, sampling, **request)))
    for client, result in asked:
        same(client, result)
    totals = batch.status().totals
    assert (totals.requests, totals.finished, totals.failed, totals.cancelled) == (14, 14, 0, 0)
    assert totals.generated_tokens == sum(len(client.tokens) for client, _ in asked)


def test_random_joins_cancels_and_follow_ups(start, alone, mode):
    batch, _ = start(batch_prefix="on", batch_prefix_mib=1, **mode)
    choose = random.Random(7)
    texts, asked = [prompt(40, seed) for seed in range(3)], []
    for step in range(150):
        ids = [*choose.choice(texts)[: choose.randint(1, 300)], *prompt(choose.randint(0, 60), step)]
        request = {"max_tokens": choose.randint(0, 12), "ignore_eos": True}
        leaves = choose.randint(0, 8) if choose.random() < 0.3 else None

        def leave(client, _, leaves=leaves):
            if leaves is not None and len(client.tokens) >= leaves and client.ticket is not None:
                client.ticket.cancel()

        client = ask(batch, ids, GREEDY, leave, **request)
        if leaves == 0:
            client.ticket.cancel()
        asked.append((client, ids, request))
        if choose.random() < 0.5:
            choose.choice(asked)[0].wait()
            texts[choose.randrange(3)] = [*ids, *client.tokens]
    for client, ids, request in asked:
        client.wait()
        result = alone(ids, GREEDY, **request)
        if client.finish == "cancelled":
            assert client.tokens == list(result.token_ids)[: len(client.tokens)]
        else:
            same(client, result)
    status = batch.status()
    assert all(slot.state == "free" for slot in status.slots)
    assert status.totals.finished + status.totals.cancelled == 150
    assert status.totals.cached_tokens > 0


def test_windows_hold_every_text_that_decodes(start):
    model = Gated()
    batch, _ = start(model, batch_slots=4)
    clients = [ask(batch, prompt(5, seed), GREEDY, max_tokens=6, ignore_eos=True) for seed in range(4)]
    model.let(4)
    for client in clients:
        client.wait()
    assert [len(parts) for parts in model.windows] == [4] * 5


def test_texts_that_do_not_fit_into_one_window_take_turns(start):
    model = Gated()
    batch, _ = start(model, batch_slots=11)
    clients = [ask(batch, prompt(5, seed), GREEDY, max_tokens=9, ignore_eos=True) for seed in range(11)]
    model.let(11)
    for client in clients:
        client.wait()
    assert max(len(parts) for parts in model.windows) == 8
    assert len(model.windows) <= 8 * 11 // 8 + 4


def test_a_request_that_is_cancelled_frees_its_slot_within_one_window(start):
    batch, _ = start(batch_slots=1)

    def leave(client, _):
        if len(client.tokens) == 5:
            client.ticket.cancel()

    first = ask(batch, prompt(3), GREEDY, leave, max_tokens=400, ignore_eos=True).wait()
    assert first.finish == "cancelled"
    assert 5 <= len(first.tokens) <= 6
    assert ask(batch, prompt(3), GREEDY, max_tokens=2, ignore_eos=True).wait().finish == "length"


def test_a_request_that_waits_can_be_cancelled(start):
    model = Gated()
    batch, _ = start(model, batch_slots=1)
    first = ask(batch, prompt(3), GREEDY, max_tokens=2, ignore_eos=True)
    model.wait()
    second = ask(batch, prompt(3), GREEDY, max_tokens=2, ignore_eos=True)
    assert batch.status().queued == 1
    second.ticket.cancel()
    model.let(1)
    assert second.wait().finish == "cancelled"
    assert first.wait().finish == "length"
    assert second.ticket.usage.completion_tokens == 0
    totals = batch.status().totals
    assert (totals.requests, totals.finished, totals.cancelled) == (2, 1, 1)


def test_a_full_queue_refuses(start):
    model = Gated()
    batch, _ = start(model, batch_slots=1, batch_queue=2)
    first = ask(batch, prompt(3), GREEDY, max_tokens=1)
    model.wait()
    waiting = [ask(batch, prompt(3), GREEDY, max_tokens=1) for _ in range(2)]
    with pytest.raises(QueueFull, match=r"2 requests wait for a slot, as many as batch\.queue allows"):
        ask(batch, prompt(3), GREEDY, max_tokens=1)
    model.let(3)
    for client in (first, *waiting):
        client.wait()
    model.let(1)
    assert ask(batch, prompt(3), GREEDY, max_tokens=1).wait().finish == "length"


def test_what_does_not_fit_is_refused_before_any_work(start):
    batch, engine = start()
    with pytest.raises(UserError, match="the prompt has 513 tokens, more than the context of 512"):
        ask(batch, prompt(513), GREEDY, max_tokens=1)
    with pytest.raises(UserError, match="max_tokens must be a whole number"):
        ask(batch, prompt(3), GREEDY, max_tokens=-1)
    with pytest.raises(UserError, match="logprobs must be a number of tokens from 0 to 300, not 301"):
        ask(batch, prompt(3), GREEDY, max_tokens=1, logprobs=301)
    with pytest.raises(UserError, match="a batch works with this engine's model"):
        engine.generate([5], GREEDY).run()
    assert batch.status().totals.requests == 0


def test_limits_of_a_request(start):
    batch, _ = start()
    nothing = ask(batch, prompt(3), GREEDY, max_tokens=0).wait()
    assert (nothing.finish, nothing.tokens, len(nothing.told)) == ("length", [], 1)
    full = ask(batch, prompt(510), GREEDY, max_tokens=50, ignore_eos=True).wait()
    assert (full.finish, len(full.tokens)) == ("length", 2)
    whole = ask(batch, prompt(512), GREEDY, max_tokens=50).wait()
    assert (whole.finish, whole.tokens) == ("length", [])


def test_log_probabilities_are_those_of_the_network(start, alone):
    batch, _ = start()
    ids = prompt(6)
    client = ask(batch, ids, SamplingParams(temperature=2, seed=5), max_tokens=5, ignore_eos=True, logprobs=3).wait()
    for at, event in enumerate(client.told):
        row = hashed(VOCAB)([*ids, *client.tokens[:at]]).astype(np.float64)
        expected = row - np.log(np.exp(row).sum())
        assert event.logprobs.token_id == event.token_id
        assert event.logprobs.logprob == pytest.approx(expected[event.token_id], abs=1e-5)
        assert [token for token, _ in event.logprobs.top] == np.argsort(-row)[:3].tolist()
        assert [value for _, value in event.logprobs.top] == pytest.approx(np.sort(expected)[::-1][:3], abs=1e-5)
    one = ask(batch, ids, GREEDY, max_tokens=1, logprobs=0).wait().told[0].logprobs
    assert one.top == ()
    assert ask(batch, ids, GREEDY, max_tokens=1).wait().told[0].logprobs is None


def broken_at(length, value=np.nan):
    """Logits that are not finite once so many tokens of a text that begins with token 7 were read."""

    def logits(read):
        row = hashed(VOCAB)(read)
        if read[0] == 7 and len(read) >= length:
            row[3] = value
        return row

    return FakeModel(VOCAB, logits, context_length=512)


@pytest.mark.parametrize("length", [12, 17])
def test_logits_that_are_not_finite_end_only_their_request(start, alone, length, mode):
    batch, _ = start(broken_at(length), **mode)
    others = [prompt(20, seed) for seed in range(2)]
    clients = [ask(batch, ids, GREEDY, max_tokens=30, ignore_eos=True) for ids in others]
    bad = ask(batch, [7, *prompt(11)], GREEDY, max_tokens=30, ignore_eos=True).wait()
    assert isinstance(bad.finish, Failure)
    assert "is not finite" in bad.finish.message
    assert len(bad.tokens) == length - 12
    for client, ids in zip(clients, others, strict=True):
        same(client, alone(ids, GREEDY, max_tokens=30, ignore_eos=True))
    assert batch.status().totals.failed == 1
    assert ask(batch, prompt(5), GREEDY, max_tokens=3, ignore_eos=True).wait().finish == "length"


def test_a_window_that_comes_to_no_end_ends_its_requests_and_no_others(start, alone):
    class Stalling(FakeModel):
        stalls = True

        def joint_window(self, parts, states):
            if self.stalls:
                self.stalls = False
                raise RuntimeError("the halves did not meet")
            return super().joint_window(parts, states)

    batch, _ = start(Stalling(VOCAB, hashed(VOCAB), 512), batch_slots=2)
    first = ask(batch, prompt(5), GREEDY, max_tokens=5, ignore_eos=True).wait()
    assert first.finish == Failure("RuntimeError: the halves did not meet")
    ids = prompt(9)
    same(ask(batch, ids, GREEDY, max_tokens=5, ignore_eos=True), alone(ids, GREEDY, max_tokens=5, ignore_eos=True))


def test_a_listener_that_fails_ends_its_own_request(start, alone, caplog):
    batch, _ = start()

    def fail(client, _):
        if len(client.tokens) == 2:
            raise OSError("gone")

    ids = prompt(9)
    bad = ask(batch, prompt(4), GREEDY, fail, max_tokens=200, ignore_eos=True)
    good = ask(batch, ids, GREEDY, max_tokens=8, ignore_eos=True)
    same(good, alone(ids, GREEDY, max_tokens=8, ignore_eos=True))
    assert bad.wait().finish == "cancelled"
    assert f"the listener of request {bad.ticket.id} failed" in caplog.text


@pytest.mark.parametrize(
    "step", [(Prefixes, "find"), (Prefixes, "keep"), (FakeCache, "fill")], ids=lambda step: step[1]
)
def test_a_request_that_gets_no_slot_ends_alone(start, alone, monkeypatch, step):
    """However it fails on its way into a slot, its client is told, and nothing half copied is taken for a prefix."""
    batch, _ = start(batch_slots=2, batch_prefix="on", batch_prefix_mib=1)
    first, second = prompt(40, 1), prompt(40, 2)
    for ids in (first, second):
        ask(batch, ids, GREEDY, max_tokens=2).wait()

    def broken(owner, *_):
        if isinstance(owner, FakeCache):
            owner.ids.clear()
        raise MemoryError("nothing is left")

    with monkeypatch.context() as patch:
        patch.setattr(*step, broken)
        told = ask(batch, [*second[:20], *first], GREEDY, max_tokens=2).wait().finish
    assert told == Failure("MemoryError: nothing is left")
    for ids in (first, second, [*second, *first]):
        same(ask(batch, ids, GREEDY, max_tokens=4), alone(ids, GREEDY, max_tokens=4))
    assert batch.status().totals.failed == 1


def test_closing_lets_running_requests_end_and_gives_the_engine_back(start, alone):
    model = Gated()
    batch, engine = start(model, batch_slots=1)
    ids = prompt(3)
    running = ask(batch, ids, GREEDY, max_tokens=4, ignore_eos=True)
    model.wait()
    waiting = ask(batch, ids, GREEDY, max_tokens=4, ignore_eos=True)
    closing = threading.Thread(target=batch.close, args=(60,))
    closing.start()
    while batch.accepts:
        time.sleep(0.001)
    model.let(1)
    closing.join(60)
    same(running, alone(ids, GREEDY, max_tokens=4, ignore_eos=True))
    assert waiting.finish == "cancelled"
    with pytest.raises(UserError, match="the batch is closed"):
        ask(batch, ids, GREEDY, max_tokens=1)
    batch.close()
    model.let(1)
    assert engine.generate(ids, GREEDY, max_tokens=4, ignore_eos=True).run().token_ids == tuple(running.tokens)


def test_stop_during_admission(start, mode):
    """Closing at once ends what runs, what is being read and what waits, each with one last event."""
    model = Gated()
    batch, _ = start(model, batch_slots=2, **mode)
    clients = [ask(batch, prompt(40, seed), GREEDY, max_tokens=400, ignore_eos=True) for seed in range(5)]
    model.wait()
    closing = threading.Thread(target=batch.close)
    closing.start()
    model.let(50)
    closing.join(60)
    assert not closing.is_alive()
    assert [client.finish for client in clients] == ["cancelled"] * 5


def test_usage_of_a_request(start):
    batch, _ = start()
    client = ask(batch, prompt(20), GREEDY, max_tokens=5, ignore_eos=True).wait()
    usage = client.ticket.usage
    assert (usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens) == (20, 0, 5)
    assert min(usage.queue_s, usage.prompt_s, usage.decode_s) >= 0
    assert client.ticket.usage == usage, "time stands still behind the end"


def test_usage_is_whole_while_a_slot_is_left():
    """Clients ask on their own threads: here in the very moment at which the batch settles it."""

    class Overtaken(Job):
        __slots__ = ("kept",)

        @property
        def settled(self):
            if self.decoding is not None:
                self.settle()
                return None
            return self.kept

        @settled.setter
        def settled(self, usage):
            self.kept = usage

    job = Overtaken(1, Request((5, 6)), print, None, 0.0)
    job.decoding = SimpleNamespace(token_ids=[7, 8, 9], acceptance=SimpleNamespace(accepted=0, drafted=0))
    assert job.usage.completion_tokens == 3
    assert job.usage.completion_tokens == 3
