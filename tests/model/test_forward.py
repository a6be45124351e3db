"""What a pass promises beside its numbers: errors before anything is written, independent results, no leftovers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from strata_runtime.errors import UserError
from strata_runtime.model import Model
from support.checkpoints import make_config, make_tensors, write_checkpoint
from support.reference_provider import ReferenceProvider, make_settings

IDS = torch.arange(1, 21)


def test_what_is_said_of_a_model(model: Model, tiny: Path) -> None:
    info = model.info
    assert (info.family, info.path) == ("glm4_moe", tiny)
    assert (info.vocab_size, info.context_length, info.hidden_size, info.layers) == (96, 512, 64, 3)
    assert (info.experts, info.experts_per_token, info.further_layers, info.eos_ids) == (6, 2, 0, (0,))
    assert info.parameters == sum(tensor.numel() for tensor in make_tensors(make_config()).values())
    assert info.checkpoint_bytes == (tiny / "model.safetensors").stat().st_size
    assert (info.expert_format, info.expert_bytes) == ("bf16", 2 * 6 * 3 * 32 * 64 * 2)


def test_progress_counts_layers(tiny: Path) -> None:
    seen: list[tuple[int, int]] = []
    Model.load(tiny, ReferenceProvider(), make_settings(), lambda done, total: seen.append((done, total)))
    assert seen == [(1, 3), (2, 3), (3, 3)]


def test_last_is_the_last_row_of_all(model: Model) -> None:
    every = model.forward(IDS, model.new_cache(32), logits="all")
    last = model.forward(IDS, model.new_cache(32))
    assert (every.shape, last.shape) == ((20, 96), (1, 96))
    assert last.dtype == torch.float32
    torch.testing.assert_close(last[0], every[-1], atol=1e-6, rtol=0)


@pytest.mark.parametrize("logits", ["last", "all"])
def test_no_tokens_give_no_rows_and_change_nothing(model: Model, logits: str) -> None:
    cache = model.new_cache(32)
    model.forward(IDS[:3], cache)
    assert model.forward(IDS[:0], cache, logits=logits).shape == (0, 96)  # type: ignore[arg-type]
    assert cache.length == 3


def test_results_are_not_overwritten_by_later_passes(model: Model) -> None:
    cache = model.new_cache(32)
    first = model.forward(IDS[:1], cache)
    kept = first.clone()
    model.forward(IDS[1:2], cache)
    assert torch.equal(first, kept)


def test_two_texts_on_one_model_do_not_mix(model: Model) -> None:
    alone = model.new_cache(32)
    expected = [model.forward(IDS[i : i + 1], alone) for i in range(6)]
    one, other = model.new_cache(32), model.new_cache(32)
    for i in range(6):
        assert torch.equal(model.forward(IDS[i : i + 1], one), expected[i])
        model.forward(IDS[10 + i : 12 + i], other)


def test_a_truncated_cache_is_as_if_the_rest_was_never_read(model: Model) -> None:
    cache = model.new_cache(32)
    model.forward(IDS[:9], cache)
    expected = model.forward(IDS[9:10], cache)
    model.forward(IDS[12:20], cache)
    cache.truncate(9)
    assert torch.equal(model.forward(IDS[9:10], cache), expected)


@pytest.mark.parametrize("length", [-1, 4])
def test_a_cache_cannot_be_truncated_to_what_it_never_held(model: Model, length: int) -> None:
    cache = model.new_cache(32)
    model.forward(IDS[:3], cache)
    with pytest.raises(ValueError, match=f"cannot truncate a cache of 3 positions to {length}"):
        cache.truncate(length)


def test_a_full_cache_refuses_before_anything_is_written(model: Model) -> None:
    cache = model.new_cache(8)
    model.forward(IDS[:6], cache)
    before = cache.data.clone()
    with pytest.raises(UserError, match="the context is full: 6 tokens are in it and 3 more do not fit into 8"):
        model.forward(IDS[:3], cache)
    assert cache.length == 6
    # As bits: what was never written may hold NaN.
    assert torch.equal(cache.data.view(torch.int32), before.view(torch.int32))
    assert model.forward(IDS[:2], cache).shape == (1, 96)


@pytest.mark.parametrize("capacity", [-1, 0, 513, 2**62])
def test_a_cache_that_the_model_cannot_use(model: Model, capacity: int) -> None:
    with pytest.raises(UserError, match=f"engine.context is {capacity}, but this model reads from 1 to 512 tokens"):
        model.new_cache(capacity)


@pytest.mark.parametrize("token", [-1, 96, 2**40])
@pytest.mark.parametrize("tokens", [1, 12])
def test_ids_outside_the_vocabulary(model: Model, token: int, tokens: int) -> None:
    cache = model.new_cache(32)
    model.forward(IDS[:3], cache)
    ids = IDS[:tokens].clone()
    ids[-1] = token
    with pytest.raises(UserError, match="a token id is outside the vocabulary of 96"):
        model.forward(ids, cache)
    assert cache.length == 3


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.norm.weight", float("nan")),
        ("model.norm.weight", float("inf")),
        ("model.layers.0.self_attn.k_proj.weight", float("nan")),
        ("model.layers.1.mlp.shared_experts.down_proj.weight", float("nan")),
    ],
)
def test_an_output_that_is_not_finite_is_an_error_that_says_so(tmp_path: Path, name: str, value: float) -> None:
    config = make_config()
    tensors = make_tensors(config)
    tensors[name].view(-1)[5] = value
    model = Model.load(write_checkpoint(tmp_path / "model", config, tensors), ReferenceProvider(), make_settings())
    cache = model.new_cache(32)
    with pytest.raises(UserError, match="the network's output at position 0 is not finite"):
        model.forward(IDS[:2], cache, logits="all")
    assert cache.length == 0


def test_large_finite_logits_are_no_error(tmp_path: Path) -> None:
    config = make_config(tie_word_embeddings=False)
    tensors = make_tensors(config)
    tensors["lm_head.weight"] = torch.full((96, 64), 1e37)
    model = Model.load(write_checkpoint(tmp_path / "model", config, tensors), ReferenceProvider(), make_settings())
    assert torch.isfinite(model.forward(IDS[:1], model.new_cache(4))).all()


def test_torch_threads_are_as_before(model: Model) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        model.forward(IDS, model.new_cache(32))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


COUNT_THREADS = """
import os, sys, torch
from pathlib import Path
from strata_runtime.model import Model
from support.reference_provider import ReferenceProvider, make_settings

torch.set_num_threads(2)
model = Model.load(Path(sys.argv[1]), ReferenceProvider(), make_settings())
before = len(os.listdir("/proc/self/task"))
for logits in ("last", "all"):
    model.forward(torch.arange(3), model.new_cache(8), logits=logits)
print(before, len(os.listdir("/proc/self/task")))
torch.ones(1 << 20).sum()
print(len(os.listdir("/proc/self/task")))
"""


def test_a_pass_starts_no_threads_of_torch(tmp_path: Path) -> None:
    config = make_config(vocab_size=1 << 17)
    folder = write_checkpoint(tmp_path / "model", config, make_tensors(config))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    words = [sys.executable, "-c", COUNT_THREADS, str(folder)]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    before, after, with_torch = map(int, done.stdout.split())
    assert after == before < with_torch  # the last one shows that a thread would have been seen


def test_one_token_is_few_operations(model: Model) -> None:
    cache = model.new_cache(32)
    model.forward(IDS[:1], cache)
    model.forward(IDS[:1], cache)
    with torch.profiler.profile() as profile:
        model.forward(IDS[:1], cache)
    counts = {event.key: event.count for event in profile.key_averages() if event.key.startswith("aten::")}
    views = ("select", "slice", "as_strided", "unbind", "view", "transpose", "squeeze", "permute", "reshape", "empty")
    real = sum(count for key, count in counts.items() if not key.removeprefix("aten::").startswith(views))
    assert real < 45 * model.info.layers
