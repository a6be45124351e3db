"""Log-probabilities of llama.cpp for two odd files: four greedy steps after each prompt, the ten best tokens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from strata_runtime.model import Model

from .conftest import LoadModel

REFERENCE = Path(__file__).parent / "reference"


def largest_difference(model: Model, name: str) -> float:
    largest = 0.0
    for case in json.loads((REFERENCE / f"{name}.json").read_text()):
        cache = model.new_cache(256)
        ids = case["prompt_ids"]
        for step in case["steps"]:
            found = model.forward(torch.tensor(ids), cache)[0].log_softmax(-1)
            assert int(found.argmax()) == step["id"] == step["top"][0][0]
            largest = max(largest, *(abs(float(found[token]) - logprob) for token, logprob in step["top"]))
            ids = [step["id"]]
    return largest


def test_float32_with_the_reference_of_the_native_module(load: LoadModel) -> None:
    assert largest_difference(load(REFERENCE / "glm4moe-e2-f32.gguf"), "glm4moe-e2-f32") < 1e-3


@pytest.mark.native
def test_float32(load_compiled: LoadModel) -> None:
    model = load_compiled(REFERENCE / "glm4moe-e2-f32.gguf")
    assert largest_difference(model, "glm4moe-e2-f32") < 1e-3
    assert [note.rsplit(": ", 1)[-1] for note in model.info.notes] == [
        "of quantised activations, which nothing in these files is made for",
        "of quantised weights; what runs these files elsewhere does not apply them in this architecture",
    ]


@pytest.mark.native
def test_q4_k(load_compiled: LoadModel) -> None:
    model = load_compiled(REFERENCE / "qwen3moe-e16-q4_k.gguf")
    assert largest_difference(model, "qwen3moe-e16-q4_k") < 2e-2
    assert model.info.expert_format == "q4_k"
