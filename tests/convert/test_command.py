"""`strata convert` on the bundled model, in every format that the package can make."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import gguf
import numpy as np
import pytest
from click.testing import CliRunner, Result

from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime import Engine
from strata_runtime.cli.main import group
from strata_runtime.convert.choice import bits
from strata_runtime.provider import PATH_VARIABLE
from support.compiled import compiled_provider

pytestmark = pytest.mark.native
MODEL = Path(__file__).parents[2] / "examples" / "models" / "strata-tiny"
TEXT = (Path(__file__).parents[1] / "support" / "text_models.py").read_text(encoding="utf-8")
MADE = [form.name for form in load_specs((specs_root(),)).formats if form.encode is not None]


@pytest.fixture
def strata(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    monkeypatch.setenv(PATH_VARIABLE, str(compiled_provider().folder))
    return lambda *words: CliRunner().invoke(group, [str(word) for word in words])


def log_probabilities(path: Path) -> np.ndarray:
    with Engine.load(path, environ={}, provider=compiled_provider(), report=lambda _: None) as engine:
        ids = engine.encode(TEXT)[:200]
        return np.concatenate(list(engine.logprob_rows(ids)))


@cache
def expected() -> np.ndarray:
    return log_probabilities(MODEL)


def test_every_format_that_can_be_made_is_tried() -> None:
    assert sorted(MADE) == sorted(form.name for form in compiled_provider().formats if form.encodes)
    assert {"f32", "bf16", "f16", "q8_0", "q4_0"} <= set(MADE)


def convert(strata: Callable[..., Result], out: Path, name: str, *more: str) -> Result:
    return strata("convert", "--model", MODEL, "--out", out, "--format", name, *more)


# Rounding chooses other experts at times, so that one position may differ by much: the mean is what counts.
DIVERGENCE = {"f32": 0.0, "bf16": 0.0, "f16": 1e-8, "q8_0": 3e-3}


@pytest.mark.parametrize("name", MADE)
def test_the_model_in_every_format(tmp_path: Path, strata: Callable[..., Result], name: str) -> None:
    out = tmp_path / "model.gguf"
    done = convert(strata, out, name, "--json")
    assert done.exit_code == 0, done.output
    summary = json.loads(done.stdout)
    assert summary["bytes"] == out.stat().st_size
    assert sum(share["tensors"] for share in summary["formats"].values()) == summary["tensors"] == 129
    form = next(form for form in compiled_provider().formats if form.name == name)
    kinds = {tensor.name: tensor.tensor_type.name for tensor in gguf.GGUFReader(out).tensors}
    assert kinds["blk.3.ffn_gate_exps.weight"] == form.gguf
    found, wanted = log_probabilities(out), expected()
    divergence = float((np.exp(wanted) * (wanted - found)).sum(-1).mean())
    assert abs(divergence) <= DIVERGENCE.get(name, 0.05 if bits(form) >= 4 else 0.2)


def test_the_closing_line_tells_sizes_and_seconds(tmp_path: Path, strata: Callable[..., Result]) -> None:
    done = convert(strata, tmp_path / "model.gguf", "q4_0")
    line = r"wrote \S+model.gguf: 129 tensors in 8.0 MiB \(4.4 MiB of q4_0, 3.1 MiB of q8_0, 359.3 KiB of f32\) "
    assert re.fullmatch(line + r"from 22.0 MiB in \d+\.\d s\n", done.stdout)
    assert done.stderr == ""


def test_what_is_decided_is_said(tmp_path: Path, strata: Callable[..., Result]) -> None:
    done = strata("convert", "--model", MODEL, "--out", tmp_path / "a.gguf", "--format", "f16", "--no-tokenizer")
    assert done.exit_code == 0
    with Engine.load(tmp_path / "a.gguf", environ={}, provider=compiled_provider(), report=lambda _: None) as engine:
        assert engine.tokenizer is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "q80"], "there is no format 'q80', wanted for experts; what can be made: .*did you mean 'q8_0'?"),
        (["--format", "q8_0", "--dense-format", "f61"], "there is no format 'f61', wanted for dense"),
        (["--format", "q8_0", "--model", "absent"], "absent: no such folder or file"),
        (["--format", "q8_0", "--model", str(MODEL.parent)], "a checkpoint is a folder with config.json"),
        (["--format", "q8_0", "--threads", "0"], "'--threads': 0 is not in the range"),
    ],
)
def test_errors_are_one_message_and_exit_code_2(
    tmp_path: Path, strata: Callable[..., Result], words: list[str], message: str
) -> None:
    done = strata("convert", "--model", MODEL, "--out", tmp_path / "model.gguf", *words)
    assert done.exit_code == 2
    assert re.search(message, done.stderr)
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_nothing_but_conversion_imports_the_library() -> None:
    code = "import sys, strata_runtime.engine, strata_runtime.cli.convert; assert 'gguf' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
