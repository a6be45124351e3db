"""What of a prompt is not read again, and that no text depends on it."""

import pytest
import torch

from strata_runtime import SamplingParams
from strata_runtime.layers.kv_cache import KVCache
from support.batches import VOCAB, ask, prompt, same
from support.fake_engine import FakeModel, hashed

GREEDY = SamplingParams(temperature=0, seed=1)
ASKED = {"max_tokens": 6, "ignore_eos": True}


@pytest.fixture
def run(start, alone):
    """Ask a batch one prompt after the other; return how many tokens of each were not read."""

    def ask_all(*prompts, **options):
        batch, _ = start(**options)
        cached = []
        for ids in prompts:
            client = ask(batch, ids, GREEDY, **ASKED)
            same(client, alone(ids, GREEDY, **ASKED))
            cached.append(client.ticket.usage.cached_tokens)
        assert batch.status().totals.cached_tokens == sum(cached)
        return cached

    return ask_all


def test_off_reads_everything(run):
    assert run(prompt(50), prompt(50), batch_prefix="off") == [0, 0]


def test_exact_takes_over_whole_chunks(run):
    text = prompt(100)
    # Chunks of 16; the last token is always read.
    assert run(text[:50], text[:60], text[:47], text[:64], text, batch_prefix="exact") == [0, 48, 32, 48, 64]


def test_exact_takes_nothing_of_what_was_generated_or_read_in_part(run, alone):
    text = prompt(31)
    answer = list(alone(text, GREEDY, **ASKED).token_ids)
    assert run(text, [*text, *answer, *prompt(30, 1)], batch_prefix="exact") == [0, 16]


def test_on_takes_over_all_that_begins_alike_with_what_was_generated(run, alone):
    text = prompt(31)
    answer = list(alone(text, GREEDY, **ASKED).token_ids)
    follow_up = [*text, *answer, *prompt(30, 1)]
    # The last drawn token was never read.
    assert run(text, follow_up, text, batch_prefix="on") == [0, 31 + 5, 30]


def test_a_prompt_shares_the_prefix_of_a_text_that_still_decodes(start, alone):
    batch, _ = start()
    text = prompt(90)
    first = ask(batch, text[:40], GREEDY, max_tokens=300, ignore_eos=True).wait(lambda client: client.tokens)
    second = ask(batch, text, GREEDY, **ASKED)
    same(second, alone(text, GREEDY, **ASKED))
    assert second.ticket.usage.cached_tokens == 32
    same(first, alone(text[:40], GREEDY, max_tokens=300, ignore_eos=True))


@pytest.mark.parametrize("budget, expected", [(0, 0), (1, 48)])
def test_a_prefix_that_lost_its_slot_is_kept_in_memory_within_its_budget(run, budget, expected):
    text = prompt(50)
    found = run(text, prompt(50, 1), text, batch_slots=1, batch_prefix_mib=budget)
    assert found == [0, 0, expected]


def test_the_prefixes_used_last_are_kept(start, alone, monkeypatch):
    monkeypatch.setattr("strata_runtime.batch.prefixes.position_bytes", lambda cache: 8000)
    # A budget for two prefixes of 48 tokens.
    batch, _ = start(batch_slots=1, batch_prefix_mib=1)
    texts = [prompt(50, seed) for seed in range(4)]
    for at in (0, 1, 0, 2, 3, 0):
        client = ask(batch, texts[at], GREEDY, **ASKED)
        same(client, alone(texts[at], GREEDY, **ASKED))
    assert client.ticket.usage.cached_tokens == 48


def test_drafters_know_a_prefix_that_was_not_read(start):
    model = FakeModel(VOCAB, lambda read: hashed(VOCAB)(read[-1:]), 512)
    batch, _ = start(model, window_draft="ngram", window_width=4, batch_slots=1)
    ids = prompt(6) * 8
    ask(batch, ids, GREEDY, max_tokens=60, ignore_eos=True).wait()
    again = ask(batch, ids, GREEDY, max_tokens=60, ignore_eos=True).wait()
    assert again.ticket.usage.cached_tokens == 32
    assert again.ticket.usage.acceptance > 0


def test_a_cache_is_kept_on_the_host_and_brought_back():
    source, other = (KVCache(torch.rand(3, 2, 2, 8, 4), torch.zeros(8, 2, 2)) for _ in range(2))
    kept = source.on_host(5)
    before = kept.clone()
    source.data.zero_()
    assert torch.equal(kept, before)
    other.fill(kept[:, :, :, :4])
    assert other.length == 4
    assert torch.equal(other.begin(4), before[:, :, :, :4])
