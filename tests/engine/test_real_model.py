"""The compiled package and the bundled model, from the outside: the command, and the text of transformers."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strata_runtime import Engine, SamplingParams
from support.compiled import compiled_provider
from support.gate import child_code

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
PROMPTS = ["def read_lines(path):\n", "import os\nimport sys\n\n\nclass Cache:", '"""Utilities for']
GREEDY = SamplingParams(temperature=0)

pytestmark = pytest.mark.native


@pytest.fixture(scope="module")
def engine():
    with Engine.load(MODEL, provider=compiled_provider(), environ={}, pool_threads=2, engine_context=512) as engine:
        yield engine


def test_greedy_text_equals_that_of_transformers(engine):
    import torch
    from transformers import AutoModelForCausalLM

    oracle = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    for prompt in PROMPTS:
        ids = engine.encode(prompt)
        expected = oracle.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False)[0, len(ids) :].tolist()
        assert list(engine.generate(ids, GREEDY, max_tokens=40).run().token_ids) == expected


def test_text_of_a_seed_does_not_depend_on_threads_or_earlier_generations(engine):
    wanted = engine.generate(PROMPTS[0], SamplingParams(seed=4), max_tokens=40).run().token_ids
    engine.generate(PROMPTS[1], max_tokens=3).run()
    assert engine.generate(PROMPTS[0], SamplingParams(seed=4), max_tokens=40).run().token_ids == wanted
    with Engine.load(MODEL, provider=compiled_provider(), environ={}, pool_threads=1, engine_context=99) as other:
        assert other.generate(PROMPTS[0], SamplingParams(seed=4), max_tokens=40).run().token_ids == wanted


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_child_process_loads_its_own_whatever_its_parent_did_before_the_fork():
    import torch

    options = {"provider": compiled_provider(), "environ": {}, "engine_context": 4096, "window_draft": "mtp"}
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    torch.ones(1 << 20).exp()  # starts the threads that the child will not have
    try:
        with Engine.load(MODEL, **options) as first, Engine.load(MODEL, **options) as second:
            texts = {each.generate(PROMPTS[0], GREEDY, max_tokens=9).run().token_ids for each in (first, second)}

            def child():
                with Engine.load(MODEL, **options) as own:
                    assert {own.generate(PROMPTS[0], GREEDY, max_tokens=9).run().token_ids} == texts
                    own.generate(PROMPTS[0], GREEDY, max_tokens=4000)  # with a cache of its own for the drafts

            assert child_code(child) == 0
    finally:
        torch.set_num_threads(before)


def test_chunks_of_a_prompt_give_the_log_probabilities_of_the_whole(engine):
    ids = engine.encode(Path(__file__).read_text()[:600])
    whole = engine.logprobs(ids)
    with Engine.load(MODEL, provider=compiled_provider(), environ={}, engine_prompt_chunk=7) as chunked:
        assert chunked.logprobs(ids)[1:] == pytest.approx(whole[1:], abs=1e-4)


def test_the_command_writes_what_the_engine_generates(engine):
    args = ["generate", "--model", MODEL, "--prompt", PROMPTS[0], "--temperature", "0", "--max-tokens", "12"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("STRATA_")}
    environ = {**clean, "STRATA_PROVIDER_PATH": str(compiled_provider().folder)}
    script = "from strata_runtime.cli.main import main; main()"

    def strata(*more):
        command = [sys.executable, "-c", script, *map(str, args), *more]
        return subprocess.run(command, capture_output=True, env=environ, timeout=120, check=True)

    expected = engine.generate(PROMPTS[0], GREEDY, max_tokens=12).run()
    streamed = strata()
    assert streamed.stdout.decode() == expected.text
    assert b"12 tokens in " in streamed.stderr
    found = json.loads(strata("--json", "--pool-threads", "1").stdout)
    assert (found["text"], found["token_ids"]) == (expected.text, list(expected.token_ids))
    assert found["settings"]["pool.threads"] == "1"
