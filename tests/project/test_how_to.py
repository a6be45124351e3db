"""The pages of docs/how-to: their files and commands as they stand there, in a folder of the reader's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import MixtralConfig, MixtralForCausalLM

from strata_runtime.model import Model
from support.documents import commands, listings
from support.oracle import expected_logprobs
from support.reference_provider import ReferenceProvider, generated_families, make_settings

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "how-to").glob("add-*.md"))
SCRIPTS = Path(sys.executable).parent

SHOWN = {
    "add-a-family": [],
    "add-a-format": ["rows_dot.iq4_nl.int8.t8"],
    "add-a-knob": ["STRATA_POOL_NAP", "--pool-nap"],
    "add-a-target": ["sm_90a"],
}


def write_files(page: Path, folder: Path) -> None:
    for name, text in listings(page).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_commands_work_on_the_files_and_show_what_is_new(page: Path, tmp_path: Path) -> None:
    write_files(page, tmp_path)
    said = ""
    for command in commands(page):
        program = SCRIPTS / command.words[0]
        done = subprocess.run([program, *command.words[1:]], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        said += done.stdout
    assert len(commands(page)) >= 2
    assert [text for text in SHOWN[page.stem] if text not in said] == []


def test_the_new_knob_is_in_the_generated_code(tmp_path: Path) -> None:
    page = ROOT / "docs" / "how-to" / "add-a-knob.md"
    write_files(page, tmp_path)
    emit = next(each for each in commands(page) if each.words[1] == "emit")
    subprocess.run([SCRIPTS / emit.words[0], *emit.words[1:]], cwd=tmp_path, check=True, capture_output=True)
    tree = tmp_path / "out" / "cpu" / "native" / "tree"
    settings = next(tree.rglob("settings.py")).read_text(encoding="utf-8")
    assert "STRATA_POOL_NAP" in settings
    assert "nap" in next(tree.rglob("knobs.hpp")).read_text(encoding="utf-8")


def test_the_new_family_computes_what_transformers_does(tmp_path: Path) -> None:
    write_files(ROOT / "docs" / "how-to" / "add-a-family.md", tmp_path)
    folder = tmp_path / "model"
    make_mixtral(folder)
    ids = torch.randint(0, 96, (40,), generator=torch.Generator().manual_seed(1))
    provider = ReferenceProvider(families=generated_families(tmp_path / "my-specs"))
    model = Model.load(folder, provider, make_settings())
    found = model.forward(ids, model.new_cache(len(ids)), logits="all").log_softmax(-1)
    model.close()
    torch.testing.assert_close(found, expected_logprobs(folder, ids), atol=1e-4, rtol=0)


def make_mixtral(folder: Path) -> None:
    """A small network of random weights, written by those who define the format."""
    torch.manual_seed(0)
    config: Any = MixtralConfig(
        vocab_size=96,
        hidden_size=64,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=128,
        num_local_experts=6,
        num_experts_per_tok=2,
    )
    model: Any = MixtralForCausalLM(config)
    model.save_pretrained(folder)
