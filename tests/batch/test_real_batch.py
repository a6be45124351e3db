"""Batches of the bundled model: every request gives the tokens that it gives alone, whatever goes on beside it."""

from itertools import product
from pathlib import Path

import pytest
import torch

from strata_runtime import Engine, SamplingParams
from strata_runtime.batch import Batch
from strata_runtime.knobs import resolve
from strata_runtime.knobs.startup import startup_lines
from support.batches import ask, same
from support.compiled import compiled_provider

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
SOURCE = (ROOT / "runtime" / "strata_runtime" / "strict_json.py").read_text()
GREEDY = SamplingParams(temperature=0)
DRAWN = SamplingParams(temperature=0.8, seed=1, top_p=0.9, repetition_penalty=1.1)
MODES = {
    "off": {},
    "pieces": {"piped_piece": 64},
    "beside": {"piped_concurrent": True, "piped_give_way": 16},
}
DEVICES = {
    "pool": {},
    "slots": {"expert_cache": 100},
    "mtp": {"window_draft": "mtp"},
    "inline": {"device": torch.device("cpu"), "window_draft": "mtp", "window_width": 2},
}

pytestmark = pytest.mark.native


def load(**knobs):
    options = {"engine_context": 512, "engine_prompt_chunk": 64, "pool_threads": 2, **knobs}
    return Engine.load(MODEL, provider=compiled_provider(), environ={}, **options)


# What a GPU does takes long inline: there in the mode that takes most of it.
@pytest.mark.parametrize(
    ("device", "mode"), [each for each in product(DEVICES, MODES) if each[0] != "inline" or each[1] == "beside"]
)
def test_a_request_in_a_batch_gives_the_tokens_that_it_gives_alone(device, mode):
    tokens = 6 if device == "inline" else 24
    with load(batch_slots=4, **MODES[mode], **DEVICES[device]) as engine:
        whole = engine.encode(SOURCE)
        lengths = (150, 9, 200, 70) if device == "inline" else (300, 9, 200, 70, 400, 33)
        asked = [
            (whole[at * 7 : at * 7 + length], (GREEDY, DRAWN)[at % 2], {"max_tokens": tokens - at, "ignore_eos": True})
            for at, length in enumerate(lengths)
        ]
        expected = [engine.generate(ids, sampling, **request).run() for ids, sampling, request in asked]
        batch = Batch(engine)
        clients = [ask(batch, ids, sampling, **request) for ids, sampling, request in asked]
        for client, result in zip(clients, expected, strict=True):
            same(client, result)
        totals = batch.status().totals
        batch.close()
        assert totals.windows < totals.generated_tokens - len(lengths)
        assert (totals.concurrent_reads > 0) == (mode == "beside")
        # And the engine works on as before.
        assert engine.generate(asked[0][0], GREEDY, **asked[0][2]).run().token_ids == expected[0].token_ids


@pytest.mark.parametrize("reuse", ["exact", "on"])
def test_a_prefix_gives_the_same_tokens(reuse):
    with load(batch_slots=2, batch_prefix=reuse, batch_prefix_mib=64) as engine:
        whole = list(engine.encode(SOURCE))
        prompts = [whole[:200], whole[:330], whole[5:150], whole[40:100], whole[:330]]
        request = {"max_tokens": 12, "ignore_eos": True}
        expected = [engine.generate(ids, GREEDY, **request).run() for ids in prompts]
        batch = Batch(engine)
        cached = []
        for ids, result in zip(prompts, expected, strict=True):
            client = ask(batch, ids, GREEDY, **request)
            same(client, result)
            cached.append(client.ticket.usage.cached_tokens)
        batch.close()
        assert cached[1] == 192 if reuse == "exact" else cached[1] >= 200
        assert cached[-1] == (320 if reuse == "exact" else 329)


def test_windows_of_changing_sizes_are_served_with_their_own(monkeypatch):
    """The host half answers a doorbell block, which says how many rows it has and which window it is of."""
    with load(batch_slots=4, expert_cache=30, window_draft="ngram", window_width=2) as engine:
        ids = engine.encode(SOURCE)
        requests = [(ids[at * 40 : at * 40 + 60], {"max_tokens": 4 + 5 * at, "ignore_eos": True}) for at in range(4)]
        expected = [engine.generate(some, GREEDY, **request).run() for some, request in requests]
        batch = Batch(engine)
        clients = [ask(batch, some, GREEDY, **request) for some, request in requests]
        for client, result in zip(clients, expected, strict=True):
            same(client, result)
        batch.close()


OFF_WITH = {
    "nothing decodes beside the one slot's prompt": {"batch_slots": 1},
    "prompts are read in pieces, between windows": {"batch_slots": 2, "piped_piece": 64},
    "experts would move between slots that a prompt reads": {"batch_slots": 2, "expert_cache": 8, "expert_adapt": True},
}


def test_every_configuration_that_turns_reading_beside_off_is_tested():
    (knob,) = (knob for knob in compiled_provider().knobs if knob.name == "piped.concurrent")
    assert {each.note for each in knob.off_with} == set(OFF_WITH)


@pytest.mark.parametrize("note", OFF_WITH)
def test_reading_beside_is_turned_off_with_one_line_that_says_why(note):
    resolution = resolve(compiled_provider().knobs, environ={"STRATA_PIPED_CONCURRENT": "1"}, python=OFF_WITH[note])
    assert resolution.values["piped.concurrent"] is False
    lines = [line for line in startup_lines(resolution, version="0", target="t", package="p") if note in line]
    assert len(lines) == 1
    assert "piped.concurrent" in lines[0]


def test_reading_beside_is_on_when_nothing_turns_it_off():
    resolution = resolve(compiled_provider().knobs, environ={"STRATA_PIPED_CONCURRENT": "1"}, python={"batch_slots": 2})
    assert resolution.values["piped.concurrent"] is True
