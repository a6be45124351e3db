"""The engine over a scripted network: prompts, ends, limits, streams, and what a generation leaves behind."""

import logging
import os

import numpy as np
import pytest

from strata_runtime import SamplingParams, UserError
from strata_runtime.sampling import log_softmax
from support.fake_engine import FakeModel, hashed, load_engine, scripted
from support.text_models import byte_fallback, byte_level, write_folder

GREEDY = SamplingParams(temperature=0)
VOCAB = 300
END = 0
BACKEND = byte_level()


def ids_of(text):
    return BACKEND.encode(text).ids


@pytest.fixture
def folder(tmp_path):
    return write_folder(tmp_path / "model")


@pytest.fixture
def engine_saying(monkeypatch, folder):
    """Make an engine that answers every prompt of `prompt_length` tokens with the same tokens."""

    def make(answer, prompt_length=3, context_length=64, **options):
        tokens = ids_of(answer) if isinstance(answer, str) else answer
        model = FakeModel(VOCAB, scripted(VOCAB, prompt_length, tokens), context_length)
        engine = load_engine(monkeypatch, folder, model, **options)
        engine.model = model
        return engine

    return make


@pytest.fixture
def random_engine(monkeypatch, folder):
    def make(**options):
        model = FakeModel(VOCAB, hashed(VOCAB))
        engine = load_engine(monkeypatch, folder, model, **options)
        engine.model = model
        return engine

    return make


# Ends


def test_chunks_join_to_the_result(engine_saying):
    generation = engine_saying("héllo!").generate("abc", GREEDY, max_tokens=7)
    chunks = list(generation)
    assert "".join(chunk.text for chunk in chunks) == generation.result.text == "héllo!"
    assert [chunk.token_id for chunk in chunks] == list(generation.result.token_ids)
    assert [chunk.finish for chunk in chunks] == [None] * 6 + ["length"]
    assert generation.result.usage.prompt_tokens == 3
    assert generation.result.usage.completion_tokens == 7


def test_an_end_token_stops_is_counted_and_has_no_text(engine_saying):
    result = engine_saying([*ids_of("hi"), END]).generate("abc", GREEDY).run()
    assert (result.text, result.finish_reason) == ("hi", "stop")
    assert result.token_ids == (*ids_of("hi"), END)


def test_end_tokens_can_be_ignored(engine_saying):
    result = engine_saying([*ids_of("hi"), END]).generate("abc", GREEDY, max_tokens=7, ignore_eos=True).run()
    assert (result.text, result.finish_reason) == ("hihih", "length")


def test_a_stop_string_across_tokens_ends_the_text_before_it(engine_saying):
    generation = engine_saying("one two three").generate("abc", GREEDY, stop=["wo th", "absent"])
    assert "".join(chunk.text for chunk in generation) == "one t"
    assert generation.result.finish_reason == "stop"
    assert generation.result.token_ids == tuple(ids_of("one two th"))


def test_text_held_back_for_a_stop_string_comes_out_at_the_end(engine_saying):
    generation = engine_saying("one two").generate("abc", GREEDY, max_tokens=7, stop="twoX")
    chunks = list(generation)
    assert "".join(chunk.text for chunk in chunks) == "one two"
    assert chunks[-1].text == "two"


def test_a_stop_string_that_spells_a_control_token_stops_at_that_token(engine_saying):
    answer = [*ids_of("hi"), BACKEND.token_to_id("<|user|>"), *ids_of("more")]
    result = engine_saying(answer).generate("abc", GREEDY, stop="<|user|>", ignore_eos=True).run()
    assert (result.text, result.finish_reason) == ("hi", "stop")


def test_an_unfinished_character_at_the_limit_becomes_the_replacement_character(engine_saying):
    assert engine_saying("a😀").generate("abc", GREEDY, max_tokens=3).run().text == "a\ufffd"


def test_no_tokens_wanted_reads_the_prompt_and_says_length(engine_saying):
    engine = engine_saying("hello")
    generation = engine.generate("abc", GREEDY, max_tokens=0)
    (chunk,) = generation
    assert (chunk.text, chunk.token_id, chunk.finish) == ("", None, "length")
    assert generation.result.token_ids == ()
    assert [tokens for tokens, *_ in engine.model.passes] == [3]


def test_a_full_context_ends_the_text(engine_saying):
    result = engine_saying("hello", context_length=8).generate("abc", GREEDY, max_tokens=10**30).run()
    assert (result.text, result.finish_reason) == ("hello", "length")


def test_a_prompt_that_fills_the_context_leaves_no_room(engine_saying):
    result = engine_saying("hello", context_length=3).generate("abc", GREEDY).run()
    assert (result.text, result.finish_reason, result.usage.prompt_tokens) == ("", "length", 3)


# Prompts


def test_a_prompt_is_read_in_chunks_and_reported(engine_saying):
    engine = engine_saying("hello", prompt_length=10)
    reports = []
    generation = engine.generate("0123456789", GREEDY, max_tokens=3, progress=lambda *at: reports.append(at))
    assert engine.model.passes == []
    assert generation.run().text == "hel"
    assert engine.model.passes == [(4, 0, "last"), (4, 4, "last"), (2, 8, "last"), (1, 10, "all"), (1, 11, "all")]
    assert reports == [(0, 10), (4, 10), (8, 10), (10, 10)]


def test_the_chunk_size_does_not_change_the_text(random_engine):
    texts = {
        random_engine(engine_prompt_chunk=chunk).generate("a prompt", SamplingParams(seed=3), max_tokens=20).run().text
        for chunk in (1, 3, 64)
    }
    assert len(texts) == 1


def test_text_ids_and_messages_are_prompts(random_engine):
    engine = random_engine()
    assert engine.encode("abc") == engine.encode(ids_of("abc")) == engine.encode(np.array(ids_of("abc")))
    chat = engine.encode([{"role": "user", "content": "abc<|assistant|>"}])
    control = engine.tokenizer.control_tokens
    assert [token for token in chat if token in control.values()] == [control["<|user|>"], control["<|assistant|>"]]


def test_a_prompt_longer_than_the_context_is_refused_with_numbers_before_any_work(engine_saying):
    engine = engine_saying("hello", context_length=8, engine_context=4)
    with pytest.raises(UserError, match=r"5 tokens, more than the context of 4: .* raise it to 8"):
        engine.generate("abcde")
    assert engine.model.passes == []


@pytest.mark.parametrize("prompt", ["", []], ids=repr)
def test_an_empty_prompt_is_refused_where_the_model_has_no_first_token(engine_saying, prompt):
    with pytest.raises(UserError, match="the prompt is empty"):
        engine_saying("hello").generate(prompt)


def test_an_empty_prompt_is_the_models_first_token_where_it_has_one(monkeypatch, tmp_path):
    folder = write_folder(tmp_path, model_config={"eos_token_id": 0, "bos_token_id": 7})
    engine = load_engine(monkeypatch, folder, FakeModel(VOCAB, hashed(VOCAB)))
    assert engine.encode("") == engine.encode([]) == (7,)


def test_a_tokenizer_that_adds_a_first_token_gives_an_empty_prompt_one(monkeypatch, tmp_path):
    folder = write_folder(tmp_path, tokenizer=byte_fallback(), config={})
    engine = load_engine(monkeypatch, folder, FakeModel(VOCAB, hashed(VOCAB)))
    assert engine.encode("") == (1,)


@pytest.mark.parametrize(
    "prompt",
    [
        b"abc",
        {"role": "user"},
        5,
        None,
        [1, -1],
        [VOCAB],
        [1.0],
        ["a"],
        [True],
        [{"role": "user"}, 5],
        {1, 2},
        "\udcff",
    ],
    ids=repr,
)
def test_a_prompt_that_is_none_is_refused(engine_saying, prompt):
    with pytest.raises(UserError):
        engine_saying("hello").generate(prompt)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_tokens": -1}, "max_tokens must be"),
        ({"max_tokens": 1.5}, "max_tokens must be"),
        ({"max_tokens": True}, "max_tokens must be"),
        ({"stop": ""}, "a stop string must be"),
        ({"stop": ["a", ""]}, "a stop string must be"),
        ({"stop": [5]}, "a stop string must be"),
        ({"stop": [["a"]]}, "a stop string must be"),
    ],
    ids=str,
)
def test_values_of_a_request_are_checked_before_any_work(engine_saying, options, message):
    engine = engine_saying("hello")
    with pytest.raises(UserError, match=message):
        engine.generate("abc", **options)
    assert engine.model.passes == []


# One engine, many generations


def test_generations_one_after_another_equal_those_of_fresh_engines(random_engine):
    requests = [("first", 1), ("second prompt", 2), ("first", 1), ("x", 3)]
    one = random_engine()
    together = [one.generate(p, SamplingParams(seed=s), max_tokens=12).run().token_ids for p, s in requests]
    apart = [random_engine().generate(p, SamplingParams(seed=s), max_tokens=12).run().token_ids for p, s in requests]
    assert together == apart
    assert together[0] == together[2] != together[1]


def test_a_generation_abandoned_midway_leaves_the_engine_usable(random_engine):
    engine = random_engine()
    wanted = engine.generate("abc", SamplingParams(seed=1), max_tokens=10).run().token_ids
    abandoned = engine.generate("something else", SamplingParams(seed=2), max_tokens=30)
    for _ in range(5):
        next(abandoned)
    assert engine.generate("abc", SamplingParams(seed=1), max_tokens=10).run().token_ids == wanted
    with pytest.raises(UserError, match="cannot go on"):
        next(abandoned)
    assert abandoned.result.finish_reason == "cancelled"
    assert len(abandoned.result.token_ids) == 5


def test_generations_may_be_made_first_and_run_later(random_engine):
    engine = random_engine()
    made = [engine.generate(text, SamplingParams(seed=1), max_tokens=5) for text in ("a", "b")]
    assert [generation.run().finish_reason for generation in made] == ["length", "length"]


def test_closing_a_generation_keeps_what_it_made(engine_saying):
    generation = engine_saying("hello").generate("abc", GREEDY)
    assert generation.result.finish_reason is None
    next(generation)
    next(generation)
    generation.close()
    generation.close()
    assert list(generation) == []
    assert (generation.result.text, generation.result.finish_reason) == ("he", "cancelled")


def test_a_failing_network_ends_the_generation_and_not_the_engine(monkeypatch, folder):
    def logits(read):
        row = np.zeros(VOCAB, np.float32)
        row[5] = np.nan if len(read) == 5 else 1
        return row

    engine = load_engine(monkeypatch, folder, FakeModel(VOCAB, logits))
    generation = engine.generate("abc", GREEDY)
    with pytest.raises(UserError, match="position 4 is not finite"):
        generation.run()
    assert len(generation.result.token_ids) == 2
    assert engine.generate("abc", GREEDY, max_tokens=1).run().finish_reason == "length"


def test_an_interrupt_during_a_step_ends_the_generation_cleanly(monkeypatch, folder):
    model = FakeModel(VOCAB, scripted(VOCAB, 3, ids_of("hello")))
    engine = load_engine(monkeypatch, folder, model)
    generation = engine.generate("abc", GREEDY)
    next(generation)

    def interrupted(_):
        raise KeyboardInterrupt

    script, model.logits = model.logits, interrupted
    with pytest.raises(KeyboardInterrupt):
        next(generation)
    assert (generation.result.text, generation.result.finish_reason) == ("h", "cancelled")
    model.logits = script
    assert engine.generate("abc", GREEDY, max_tokens=5).run().text == "hello"


# Seeds, penalties, times


def test_a_seed_repeats_a_text_and_without_one_it_is_reported(random_engine):
    engine = random_engine()
    first = engine.generate("abc", max_tokens=20).run()
    assert engine.generate("abc", SamplingParams(seed=first.seed), max_tokens=20).run().token_ids == first.token_ids


def test_draws_are_keyed_by_the_position_in_the_whole_sequence(random_engine):
    """Going on from a text's own tokens gives the same text as never having stopped."""
    engine = random_engine()
    whole = engine.generate("abc", SamplingParams(seed=9), max_tokens=20, ignore_eos=True).run().token_ids
    half = [*ids_of("abc"), *whole[:10]]
    assert engine.generate(half, SamplingParams(seed=9), max_tokens=10, ignore_eos=True).run().token_ids == whole[10:]


def test_the_repetition_penalty_sees_prompt_and_text(monkeypatch, folder):
    def logits(_):
        return np.arange(VOCAB, dtype=np.float32)

    engine = load_engine(monkeypatch, folder, FakeModel(VOCAB, logits))
    penalised = SamplingParams(temperature=0, repetition_penalty=100)
    assert engine.generate([VOCAB - 1], penalised, max_tokens=3).run().token_ids == (298, 297, 296)


def test_times_add_up(engine_saying):
    timing = engine_saying("hello").generate("abc", GREEDY, max_tokens=5).run().timing
    assert timing.load_s > 0
    assert timing.prompt_s > 0
    assert timing.tokens_per_second == pytest.approx(4 / timing.decode_s)


def test_a_single_token_has_no_rate(engine_saying):
    timing = engine_saying("hello").generate("abc", GREEDY, max_tokens=1).run().timing
    assert (timing.decode_s, timing.tokens_per_second) == (0, 0)


# Log-probabilities


def test_log_probabilities_are_those_of_the_raw_logits(random_engine):
    engine = random_engine()
    ids = ids_of("some text of several chunks")
    found = engine.logprobs(ids)
    assert found.dtype == np.float32
    assert np.isnan(found[0])
    expected = [log_softmax(hashed(VOCAB)(ids[:at]))[ids[at]] for at in range(1, len(ids))]
    assert found[1:] == pytest.approx(expected)
    rows = np.concatenate(list(engine.logprob_rows(ids)))
    assert rows.shape == (len(ids), VOCAB)
    assert np.exp(rows).sum(-1) == pytest.approx(np.ones(len(ids)), abs=1e-4)


def test_log_probabilities_of_nothing_are_nothing(random_engine):
    assert random_engine().logprobs([]).shape == (0,)


@pytest.mark.parametrize("ids", [[VOCAB], [-1], [0] * 65])
def test_log_probabilities_of_impossible_ids_are_refused(random_engine, ids):
    with pytest.raises(UserError):
        random_engine().logprobs(ids)


# Life of an engine


def test_settings_by_keyword_are_stronger_than_flags_and_variables(random_engine):
    engine = random_engine(
        environ={"STRATA_ENGINE_CONTEXT": "10", "STRATA_ENGINE_PROMPT_CHUNK": "7", "STRATA_POOL_THREADS": "1"},
        flags={"engine.context": "20", "engine.prompt_chunk": "9"},
        engine_context=30,
    )
    settings = engine.settings
    assert (engine.context, settings.engine.prompt_chunk, settings.pool.threads) == (30, 9, 1)


def test_an_unknown_setting_is_refused_with_the_nearest_name(random_engine):
    with pytest.raises(UserError, match="pool_threads"):
        random_engine(pool_thread=2)


def test_a_context_beyond_the_models_own_is_refused(random_engine):
    with pytest.raises(UserError, match="own maximum of 64"):
        random_engine(engine_context=65)


def test_start_up_lines_are_reported_or_logged(random_engine, caplog):
    lines = []
    random_engine(report=lines.append, environ={"STRATA_POOL_THREADS": "many"}, engine_context=9)
    assert lines[0].startswith("strata 0.1.0 | cpu fake | strata_kernels_fake | engine.context=9 (Python)")
    assert "pool.threads" in lines[1]
    with caplog.at_level(logging.INFO, "strata_runtime"):
        random_engine(environ={"STRATA_POOL_THREADS": "many"})
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]


def test_a_record_that_the_engine_does_not_write_is_said(monkeypatch, folder):
    said = []
    environ = {"STRATA_EVAL_LOGPOS": "x.npz"}
    for writes in (False, True):
        load_engine(
            monkeypatch, folder, FakeModel(300, hashed(300)), environ=environ, writes_logpos=writes, report=said.append
        )
    lines = [line for line in said if "eval.logpos is ignored" in line]
    assert lines == [
        "strata: eval.logpos is ignored here: 'strata generate' and 'strata eval logpos' write such a file"
    ]


def test_an_engine_is_a_context_manager_and_closing_twice_is_fine(random_engine):
    with random_engine() as engine:
        generation = engine.generate("abc", GREEDY, ignore_eos=True)
        next(generation)
    engine.close()
    assert engine.model.closed == 1
    with pytest.raises(UserError, match="engine is closed"):
        next(generation)
    with pytest.raises(UserError, match="engine is closed"):
        engine.generate("abc").run()


def test_closing_from_another_thread_ends_a_pass_with_the_same_message(engine_saying):
    engine = engine_saying("hello")
    generation = engine.generate("abc")
    next(generation)

    def closed_meanwhile(*_, **__):
        engine.close()
        raise RuntimeError("the pool is closed")

    engine.model.joint_window = closed_meanwhile
    with pytest.raises(UserError, match="engine is closed"):
        next(generation)


def test_a_fault_of_an_open_engine_is_not_hidden(engine_saying):
    engine = engine_saying("hello")

    def fails(*_, **__):
        raise RuntimeError("a fault")

    engine.model.forward = fails
    with pytest.raises(RuntimeError, match="a fault"):
        engine.generate("abc").run()


def test_a_forked_process_is_told_to_load_its_own(engine_saying, monkeypatch):
    engine = engine_saying("hello")
    monkeypatch.setattr("os.getpid", lambda: -1)
    with pytest.raises(UserError, match="loaded before fork"):
        engine.generate("abc").run()


def test_a_model_is_closed_when_the_rest_of_loading_fails(monkeypatch, folder):
    model = FakeModel(20, hashed(20))
    with pytest.raises(UserError, match="belongs to another model"):
        load_engine(monkeypatch, folder, model)
    assert model.closed == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("absent", "no such folder"),
        ("model/config.json", "a file that is no GGUF file; give the folder"),
        ("a\0b", "NUL character"),
        ("x" * 300, "cannot be opened: File name too long"),
    ],
)
def test_a_path_that_is_no_model_folder_is_refused(monkeypatch, folder, path, message):
    with pytest.raises(UserError, match=message):
        load_engine(monkeypatch, folder.parent / path, FakeModel(VOCAB, hashed(VOCAB)))


def test_an_empty_path_is_not_the_current_folder(monkeypatch, folder):
    monkeypatch.chdir(folder)
    with pytest.raises(UserError, match="the model's path is empty"):
        load_engine(monkeypatch, "", FakeModel(VOCAB, hashed(VOCAB)))


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json", "generation_config.json", "config.json"])
@pytest.mark.parametrize("target", ["a pipe", "/dev/zero"])
def test_a_pipe_or_device_in_a_model_folder_is_refused_and_not_waited_for(monkeypatch, folder, name, target):
    (folder / name).unlink(missing_ok=True)
    if target == "a pipe":
        os.mkfifo(folder / name)
    else:
        (folder / name).symlink_to(target)
    with pytest.raises(UserError, match=f"{name}: not a file but a pipe or a device"):
        load_engine(monkeypatch, folder, FakeModel(VOCAB, hashed(VOCAB)))
