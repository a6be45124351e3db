"""Windows of drafts over a scripted network: the text, its chunks and its end are those without drafts."""

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from strata_runtime import SamplingParams, UserError
from strata_runtime.layers.outcome import Outcome
from strata_runtime.sampling import Sampler
from support.fake_engine import FakeModel, hashed, load_engine, scripted
from support.text_models import byte_level, write_folder

VOCAB = 300
END = 0
BACKEND = byte_level()
GREEDY = SamplingParams(temperature=0, seed=1)
DRAWN = SamplingParams(temperature=1, seed=3)
PENALISED = SamplingParams(temperature=1, seed=3, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.7)
SAMPLINGS = pytest.mark.parametrize("sampling", [GREEDY, DRAWN, PENALISED], ids=["greedy", "drawn", "penalised"])
WIDTHS = pytest.mark.parametrize("width", range(1, 9))


class Scripted:
    """A drafter that knows the text to come, and where it is to be wrong. Checks what it is told."""

    name = "scripted"
    wants_states = True

    def __init__(self, prompt, text, is_right):
        self.whole, self.is_right = [*prompt, *text], is_right
        self.position = 0

    def seen(self, at, ids, states):
        assert at == self.position
        assert list(ids) == self.whole[at : at + len(ids)]
        assert len(states) == len(ids)
        assert states[:, 0].tolist() == list(range(at, at + len(ids)))
        self.position += len(ids)

    def draft(self, at, token, count, best):
        assert at == self.position
        assert token == self.whole[at]
        coming = self.whole[at + 1 : at + 1 + count]
        return [token if self.is_right(at + 1 + i) else (token + 1) % VOCAB for i, token in enumerate(coming)]


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "model")


@pytest.fixture
def compare(monkeypatch, folder):
    """Generate without drafts and with; return both results after comparing them, and the network's passes."""

    def run(logits, width, is_right=lambda _: True, prompt="a prompt", sampling=GREEDY, make=FakeModel, **request):
        ids = BACKEND.encode(prompt).ids
        plain = load_engine(monkeypatch, folder, make(VOCAB, logits))
        expected = plain.generate(ids, sampling, **request)
        chunks = list(expected)
        further = plain.generate(ids, sampling, max_tokens=64, ignore_eos=True).run().token_ids
        model = make(VOCAB, logits)
        drafted = load_engine(monkeypatch, folder, model, window_draft="ngram", window_width=width)
        monkeypatch.setattr("strata_runtime.engine.make_drafter", lambda *_: Scripted(ids, further, is_right))
        found = drafted.generate(ids, sampling, **request)
        assert list(found) == chunks
        for field in ("text", "token_ids", "finish_reason", "usage", "seed"):
            assert getattr(found.result, field) == getattr(expected.result, field)
        return found.result, model.passes

    return run


@WIDTHS
@SAMPLINGS
def test_drafts_that_are_always_right_save_passes_and_change_nothing(compare, width, sampling):
    result, passes = compare(hashed(VOCAB), width, sampling=sampling, max_tokens=25, ignore_eos=True)
    assert [tokens for tokens, *_ in passes[2:]] == [width] * (24 // width) + [24 % width] * (24 % width > 0)
    acceptance = result.acceptance
    assert acceptance.windows == -(-24 // width)
    assert acceptance.accepted == acceptance.drafted == 24 - acceptance.windows
    assert acceptance.tokens_per_window == 24 / acceptance.windows


@WIDTHS
@SAMPLINGS
def test_drafts_that_are_never_right_change_nothing(compare, width, sampling):
    result, _ = compare(hashed(VOCAB), width, lambda _: False, sampling=sampling, max_tokens=25, ignore_eos=True)
    acceptance = result.acceptance
    assert (acceptance.windows, acceptance.accepted, acceptance.tokens_per_window) == (24, 0, 1)
    # No window is wider than what is still to come.
    assert acceptance.drafted == sum(min(width, left) - 1 for left in range(24, 0, -1))


@given(pattern=st.lists(st.booleans(), min_size=60, max_size=60), width=st.integers(1, 8), tokens=st.integers(0, 50))
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_pattern_of_right_and_wrong_drafts_changes_nothing(compare, pattern, width, tokens):
    result, _ = compare(hashed(VOCAB), width, pattern.__getitem__, sampling=PENALISED, max_tokens=tokens)
    assert result.acceptance.accepted <= result.acceptance.drafted


@pytest.mark.parametrize("width", [2, 5, 8])
def test_a_drafter_may_offer_less_than_it_is_asked_for(compare, monkeypatch, width):
    full = Scripted.draft
    monkeypatch.setattr(Scripted, "draft", lambda self, at, *rest: full(self, at, *rest)[: at % 4])
    compare(hashed(VOCAB), width, sampling=DRAWN, max_tokens=40, ignore_eos=True)


@WIDTHS
@pytest.mark.parametrize("tokens", range(6))
def test_a_limit_inside_a_window_ends_the_text_there(compare, width, tokens):
    result, passes = compare(hashed(VOCAB), width, max_tokens=tokens, ignore_eos=True)
    assert len(result.token_ids) == tokens
    assert sum(read for read, *_ in passes) == 8 + max(0, tokens - 1)


@WIDTHS
def test_an_end_token_inside_a_window_ends_the_text_there(compare, width):
    answer = [*BACKEND.encode("hi").ids, END, *BACKEND.encode("never").ids]
    result, _ = compare(scripted(VOCAB, 8, answer), width)
    assert (result.text, result.finish_reason) == ("hi", "stop")
    assert result.acceptance.accepted <= 2


@WIDTHS
@pytest.mark.parametrize("stop", ["wo th", "e two three on", "thr", "absent"])
def test_a_stop_string_across_windows_ends_the_text_before_it(compare, width, stop):
    result, _ = compare(scripted(VOCAB, 8, BACKEND.encode("one two three ").ids), width, stop=stop, max_tokens=30)
    assert (result.finish_reason == "length") == (stop == "absent")


@WIDTHS
def test_a_full_context_inside_a_window_ends_the_text(compare, width):
    make = partial(FakeModel, context_length=19)
    result, passes = compare(hashed(VOCAB), width, make=make, max_tokens=100, ignore_eos=True)
    assert (len(result.token_ids), result.finish_reason) == (11, "length")
    assert max(at + tokens for tokens, at, _ in passes) <= 19


@pytest.mark.parametrize("width", [2, 4, 8])
def test_closing_inside_a_window_keeps_what_was_drawn(monkeypatch, folder, width):
    engine = load_engine(monkeypatch, folder, FakeModel(VOCAB, scripted(VOCAB, 3, BACKEND.encode("hello").ids)))
    drafted = load_engine(
        monkeypatch,
        folder,
        FakeModel(VOCAB, scripted(VOCAB, 3, BACKEND.encode("hello").ids)),
        window_draft="ngram",
        window_width=width,
    )
    for each in (engine, drafted):
        generation = each.generate("lol", GREEDY)
        for _ in range(8):
            next(generation)
        generation.close()
        assert (generation.result.text, generation.result.finish_reason) == ("hellohel", "cancelled")
        assert each.generate("xyz", GREEDY, max_tokens=5).run().text == "hello"


def test_rows_behind_a_wrong_draft_are_not_drawn_from(compare, monkeypatch):
    drawn = []
    draw = Sampler.draw
    monkeypatch.setattr(Sampler, "draw", lambda self, row, at: drawn.append(at) or draw(self, row, at))
    compare(hashed(VOCAB), 6, lambda at: at % 3 != 0, sampling=DRAWN, max_tokens=20, ignore_eos=True)
    assert drawn[-20:] == list(range(8, 28))


def test_another_generation_in_between_is_named_before_anything_is_drafted(monkeypatch, folder):
    engine = load_engine(monkeypatch, folder, FakeModel(VOCAB, hashed(VOCAB)), window_draft="ngram", window_width=3)
    first = engine.generate("abcabcabc", DRAWN, max_tokens=30)
    next(first)
    engine.generate("other", DRAWN, max_tokens=3).run()
    with pytest.raises(UserError, match="cannot go on"):
        first.run()
    assert first.result.finish_reason == "cancelled"


class Spoiled(FakeModel):
    """A row that is no number makes those before it none either, as kernels that multiply by 0 do."""

    def joint_window(self, parts, states):
        outcome = super().joint_window(parts, states)
        spoiled = torch.full_like(outcome.logits, torch.nan)
        return outcome if np.isfinite(outcome.total) else Outcome.on_cpu(spoiled)


@pytest.mark.parametrize("make", [FakeModel, Spoiled])
def test_a_network_that_fails_on_drafts_alone_fails_nowhere(compare, make):
    """A draft may be a token that no text would hold there."""
    texts = []

    def logits(read):
        row = hashed(VOCAB)(read)
        if texts and any(token != right for token, right in zip(read, texts[0], strict=False)):
            row[5] = np.nan
        return row

    plain, _ = compare(logits, 1, max_tokens=20, ignore_eos=True)
    texts.append([*BACKEND.encode("a prompt").ids, *plain.token_ids])
    drafted, passes = compare(logits, 4, lambda at: at % 5 != 0, max_tokens=20, ignore_eos=True, make=make)
    assert drafted.token_ids == plain.token_ids
    assert 4 in {tokens for tokens, *_ in passes[2:]}


@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
@pytest.mark.parametrize("width", [0, 2, 4, 8])
def test_lookup_changes_nothing(monkeypatch, folder, width, sampling):
    answer = scripted(VOCAB, 3, BACKEND.encode("one two three one four ").ids)

    def text(**options):
        return load_engine(monkeypatch, folder, FakeModel(VOCAB, answer), **options).generate("abc", sampling).run()

    plain, drafted = text(), text(window_draft="ngram", window_width=width)
    assert drafted.token_ids == plain.token_ids
    assert (plain.acceptance.drafter, drafted.acceptance.drafter) == ("none", "ngram")
    assert plain.acceptance.windows == plain.usage.completion_tokens - 1
    if width:  # 0 chooses by measured time, which may be for single tokens on a busy machine
        assert drafted.acceptance.accepted > 10
        assert drafted.acceptance.windows < plain.acceptance.windows


def test_drafts_do_not_touch_log_probabilities(monkeypatch, folder):
    ids = BACKEND.encode("some text of several chunks").ids
    plain = load_engine(monkeypatch, folder, FakeModel(VOCAB, hashed(VOCAB)))
    drafted = load_engine(monkeypatch, folder, FakeModel(VOCAB, hashed(VOCAB)), window_draft="ngram")
    np.testing.assert_array_equal(plain.logprobs(ids), drafted.logprobs(ids))
