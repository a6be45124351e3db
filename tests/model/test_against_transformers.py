"""Logits are those of transformers in float32, for every option of the family and however the prompt is cut."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from strata_gen.paths import project_root
from strata_runtime.knobs import resolve
from strata_runtime.model import Model
from strata_runtime.text.tokenizer import Tokenizer
from support.checkpoints import AIR_OPTIONS, fuse, make_config, make_qwen_config, make_tensors, write_checkpoint
from support.compiled import compiled_provider
from support.oracle import expected_logprobs

from .conftest import LoadModel

OPTIONS: dict[str, dict[str, object]] = {
    "strata-tiny": {},
    "GLM-4.5-Air": AIR_OPTIONS,
    "a further layer": {"num_nextn_predict_layers": 1},
    "no dense layer": {"first_k_dense_replace": 0},
    "dense layers only": {"first_k_dense_replace": 3},
    "raw routing weights": {"norm_topk_prob": False},
    "two shared experts": {"n_shared_experts": 2},
    "all of a head rotated": {"partial_rotary_factor": 1.0},
    "every expert chosen": {"num_experts_per_tok": 6},
    "one expert chosen": {"num_experts_per_tok": 1},
    "a head of its own for each query": {"num_key_value_heads": 4},
}
QWEN_OPTIONS: dict[str, dict[str, object]] = {
    "Qwen3-30B-A3B": {},
    "biases": {"attention_bias": True},
    "tied embedding": {"tie_word_embeddings": True},
    "raw routing weights": {"norm_topk_prob": False},
    "every expert chosen": {"num_experts_per_tok": 6},
    "as transformers writes it now": {
        "rope_theta": ...,
        "rope_scaling": ...,
        "rope_parameters": {"rope_theta": 1000000.0, "rope_type": "default"},
        "num_experts": ...,
        "num_local_experts": 6,
    },
}
TOKENS = 70


def read_in_chunks(model: Model, ids: torch.Tensor, chunk: int) -> torch.Tensor:
    """Log-probabilities after every token, the ids read `chunk` at a time."""
    cache = model.new_cache(len(ids))
    rows = [model.forward(part, cache, logits="all") for part in ids.split(chunk)]
    return torch.cat(rows).log_softmax(-1)


@pytest.mark.parametrize("case", OPTIONS)
def test_random_networks(tmp_path: Path, load_model: LoadModel, case: str) -> None:
    check(load_model, write_checkpoint(tmp_path / "model", make_config(**OPTIONS[case])))


@pytest.mark.parametrize("case", QWEN_OPTIONS)
def test_random_qwen3_networks(tmp_path: Path, load_model: LoadModel, case: str) -> None:
    config = make_qwen_config(**QWEN_OPTIONS[case])
    tensors = make_tensors(make_qwen_config(**{**QWEN_OPTIONS[case], "num_experts": 6}))
    check(load_model, write_checkpoint(tmp_path / "model", config, tensors))


@pytest.mark.parametrize("config", [make_config(), make_qwen_config()], ids=["glm4_moe", "qwen3_moe"])
def test_fused_experts(tmp_path: Path, load_model: LoadModel, config: dict[str, object]) -> None:
    fused = fuse(make_tensors(config))
    assert {tuple(t.shape) for name, t in fused.items() if name.endswith("gate_up_proj")} == {(6, 64, 64)}
    assert {tuple(t.shape) for name, t in fused.items() if name.endswith("experts.down_proj")} == {(6, 64, 32)}
    folder = write_checkpoint(tmp_path / "model", config, fused)
    check(load_model, folder)
    separate = load_model(write_checkpoint(tmp_path / "separate", config))
    together = load_model(folder)
    ids = torch.arange(40)
    assert torch.equal(together.forward(ids, together.new_cache(40)), separate.forward(ids, separate.new_cache(40)))
    assert together.info.expert_bytes == separate.info.expert_bytes


def check(load_model: LoadModel, folder: Path) -> None:
    """Compare a checkpoint's log-probabilities with those of transformers, read in chunks of several sizes."""
    ids = torch.randint(0, 96, (TOKENS,), generator=torch.Generator().manual_seed(1))
    expected = expected_logprobs(folder, ids)
    model = load_model(folder)
    for chunk in (1, 7, 8, 9, 64, 512):
        torch.testing.assert_close(read_in_chunks(model, ids, chunk), expected, atol=1e-4, rtol=0)


def test_chunks_of_any_size_mix(tiny: Path, load_model: LoadModel) -> None:
    ids = torch.randint(0, 96, (TOKENS,), generator=torch.Generator().manual_seed(2))
    model = load_model(tiny)
    cache = model.new_cache(TOKENS)
    rows = [model.forward(part, cache, logits="all") for part in ids.split([1, 2, 30, 0, 8, 1, 28])]
    torch.testing.assert_close(torch.cat(rows).log_softmax(-1), read_in_chunks(model, ids, TOKENS), atol=1e-5, rtol=0)


@pytest.mark.native
def test_the_bundled_model_on_source_text() -> None:
    root = project_root()
    folder = root / "examples" / "models" / "strata-tiny"
    text = (root / "runtime" / "strata_runtime" / "model.py").read_text(encoding="utf-8")
    ids = torch.tensor(Tokenizer.load(folder).encode(text)[:400])
    provider = compiled_provider()
    settings = provider.settings_type.from_values(resolve(provider.knobs, environ={}).values)
    model = Model.load(folder, provider, settings)
    found = read_in_chunks(model, ids, 150)
    model.close()
    assert len(ids) == 400
    torch.testing.assert_close(found, expected_logprobs(folder, ids), atol=1e-3, rtol=0)
    assert found[:-1].gather(1, ids[1:, None]).mean() > -4  # it has learnt to read source text
