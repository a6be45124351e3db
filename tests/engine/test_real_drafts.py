"""Drafts on the bundled model: the same text with any drafter and width, and how often drafts are right."""

from pathlib import Path

import pytest

from strata_runtime import Engine, SamplingParams
from support.compiled import compiled_provider

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
PROMPTS = [
    "def read_lines(path):\n",
    "import os\nimport sys\n\n\nclass Cache:\n    def __init__(self):\n",
    (ROOT / "runtime" / "strata_runtime" / "strict_json.py").read_text()[:900],
]
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0, seed=1),
    "drawn": SamplingParams(temperature=1, seed=1),
    "penalised": SamplingParams(temperature=0.8, seed=1, top_k=50, top_p=0.9, min_p=0.01, repetition_penalty=1.2),
}
TOKENS = 48

pytestmark = pytest.mark.native


def load(**knobs):
    return Engine.load(MODEL, provider=compiled_provider(), environ={}, engine_context=512, pool_threads=1, **knobs)


def texts(engine):
    return {
        (name, prompt): engine.generate(prompt, sampling, max_tokens=TOKENS, ignore_eos=True).run()
        for name, sampling in SAMPLINGS.items()
        for prompt in PROMPTS
    }


@pytest.fixture(scope="module")
def plain():
    with load() as engine:
        return texts(engine)


@pytest.mark.parametrize("draft", ["ngram", "mtp"])
@pytest.mark.parametrize("width", [0, 2, 4, 7])
def test_text_does_not_depend_on_drafter_and_width(plain, draft, width):
    with load(window_draft=draft, window_width=width) as engine:
        found = texts(engine)
    assert {key: result.token_ids for key, result in found.items()} == {
        key: result.token_ids for key, result in plain.items()
    }
    assert sum(result.acceptance.accepted for result in found.values()) > 0


def test_most_drafts_of_the_models_own_layer_are_right(plain):
    with load(window_draft="mtp", window_width=2) as engine:
        found = [result.acceptance for (name, _), result in texts(engine).items() if name == "greedy"]
    assert sum(each.accepted for each in found) > 0.7 * sum(each.drafted for each in found)


def test_a_prompt_in_chunks_drafts_as_a_whole_one():
    """The layer reads the prompt too, and needs the token behind each chunk."""
    accepted = set()
    for chunk in (5, 64, 512):
        with load(window_draft="mtp", window_width=3, engine_prompt_chunk=chunk) as engine:
            accepted.add(engine.generate(PROMPTS[2], SAMPLINGS["greedy"], max_tokens=40).run().acceptance)
    assert len(accepted) == 1
