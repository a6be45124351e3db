"""The training example: from a folder of Python files to a checkpoint that transformers loads."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer

SIZES = {
    "vocab-size": 400,
    "hidden-size": 32,
    "dense-width": 64,
    "layers": 2,
    "heads": 4,
    "kv-heads": 2,
    "head-dim": 16,
    "experts": 4,
    "top-k": 2,
    "expert-width": 16,
    "context": 32,
}


@pytest.fixture(scope="module")
def run(root: Path):
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(root / "examples")}
        command = [sys.executable, "-m", "train_strata_tiny", *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    return run


@pytest.fixture(scope="module")
def data(run, root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    scripts = root / "examples" / "train_strata_tiny"
    done = run("prepare", "--folder", scripts, "--no-stdlib", "--vocab-size", 400, "--output", folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def checkpoint(run, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoint")
    sizes = [part for name, size in SIZES.items() for part in (f"--{name}", size)]
    done = run("train", "--data", data, "--output", folder, "--steps", 3, "--batch-size", 2, "--device", "cpu", *sizes)
    assert done.returncode == 0, done.stderr
    assert "held out after 3 steps" in done.stdout
    return folder


@pytest.fixture
def train_strata_tiny(root: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(root / "examples"))
    for name in ("config", "export", "layers", "model"):
        import_module(f"train_strata_tiny.{name}")
    return import_module("train_strata_tiny")


def tensor_layout(folder: Path) -> set[tuple[str, str]]:
    """Return (name, dtype) of every tensor, with layer numbers by their role and expert numbers left out."""
    last = json.loads((folder / "config.json").read_text())["num_hidden_layers"]

    def role(match: re.Match[str]) -> str:
        number = int(match.group(1))
        return f"layers.{'dense' if number == 0 else 'extra' if number == last else 'sparse'}."

    layout = set()
    with safe_open(folder / "model.safetensors", "pt") as tensors:
        for name in tensors.keys():  # noqa: SIM118
            general = re.sub(r"experts\.\d+", "experts.N", re.sub(r"layers\.(\d+)\.", role, name))
            layout.add((general, tensors.get_slice(name).get_dtype()))
    return layout


def test_checkpoint_has_the_layout_of_the_bundled_one(checkpoint: Path, root: Path) -> None:
    bundled = root / "examples" / "models" / "strata-tiny"

    def read(folder: Path, name: str) -> dict[str, object]:
        return json.loads((folder / name).read_text())

    assert tensor_layout(checkpoint) == tensor_layout(bundled)
    assert read(checkpoint, "config.json").keys() == read(bundled, "config.json").keys()
    settings, bundled_settings = read(checkpoint, "tokenizer_config.json"), read(bundled, "tokenizer_config.json")
    assert settings | {"model_max_length": 8192} == bundled_settings
    assert sorted(path.name for path in checkpoint.iterdir()) == [
        "config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_the_default_sizes_are_those_of_the_bundled_model(root: Path, train_strata_tiny: ModuleType) -> None:
    bundled = json.loads((root / "examples/models/strata-tiny/config.json").read_text())
    assert train_strata_tiny.config.TinyConfig().checkpoint_config() == bundled


def test_transformers_computes_what_the_training_network_does(
    checkpoint: Path, train_strata_tiny: ModuleType, tmp_path: Path
) -> None:
    transformers = pytest.importorskip("transformers")
    config = train_strata_tiny.config.TinyConfig(**{name.replace("-", "_"): size for name, size in SIZES.items()})
    torch.manual_seed(0)
    ours = train_strata_tiny.model.TinyModel(config).bfloat16().float().eval()
    train_strata_tiny.export.export(ours, Tokenizer.from_file(str(checkpoint / "tokenizer.json")), tmp_path)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    ids = torch.arange(5, 29)[None]
    with torch.no_grad():
        table = train_strata_tiny.layers.rotary_table(config, ids.shape[1], ids.device)
        logits = ours.hidden_states(ids, table) @ ours.embedding.weight.T
        torch.testing.assert_close(logits, theirs(ids).logits, atol=2e-5, rtol=0)


def test_too_little_text_is_one_line(run, tmp_path: Path) -> None:
    (tmp_path / "small.py").write_text("x = 1\n")
    done = run("prepare", "--folder", tmp_path, "--no-stdlib", "--output", tmp_path / "out")
    assert done.returncode == 1
    assert "fewer than two suitable Python files" in done.stderr
    assert "Traceback" not in done.stderr


def test_impossible_sizes_are_refused_before_training(run, data: Path, tmp_path: Path) -> None:
    done = run("train", "--data", data, "--output", tmp_path, "--experts", 2, "--top-k", 3)
    assert done.returncode == 2
    assert "top_k (3) is above experts (2)" in done.stderr
