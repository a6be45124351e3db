"""Token ids of prompts and conversations equal those of transformers, for text without control tokens."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strata_runtime.text.chat import ChatTemplate
from strata_runtime.text.tokenizer import Tokenizer

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
TOKENIZER = Tokenizer.load(MODEL)
CHAT = ChatTemplate.load(MODEL, TOKENIZER)

texts = st.text(st.characters(exclude_categories=["Cs", "Co"]), max_size=40) | st.sampled_from(
    ["def f(x):\n    return x\n", "  \t\n\n  x", "<|user", "a|>", "'ll 123456", "日本語😀"]
)


@pytest.fixture(scope="module")
def oracle():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(MODEL)


@given(texts)
@settings(max_examples=120, deadline=None)
def test_prompts(oracle, text):
    assert TOKENIZER.encode(text) == oracle.encode(text)


@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), texts), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_conversations(oracle, turns):
    messages = [{"role": role, "content": content} for role, content in turns]
    expected = oracle.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert CHAT.render(messages, TOKENIZER) == expected
