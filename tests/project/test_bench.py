"""The measuring scripts run, on sizes too small to mean anything; speed is never a test."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from strata_gen.specs import load_specs


def run(root: Path, script: str, *words: str, **environment: str) -> dict:
    done = subprocess.run(
        [sys.executable, root / "bench" / script, *words, "--json"],
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.native
def test_decode_is_measured_beside_transformers_on_the_same_tokens(root: Path, kernels: Path, tmp_path: Path) -> None:
    plot = tmp_path / "plot.png"
    words = ["--rounds", "1", "--tokens", "8", "--threads", "1", "--plot", str(plot)]
    result = run(root, "vs_transformers.py", *words, STRATA_PROVIDER_PATH=str(kernels))
    assert result["same_tokens_as_float32"]
    assert set(result["ratio"]) == {"transformers float32", "transformers bfloat16"}
    assert all(peak > 0 for peak in result["peak_bytes"].values())
    assert "cpu" in result["surroundings"]
    assert plot.read_bytes().startswith(b"\x89PNG")


@pytest.mark.native
def test_parity_is_close_as_stored(root: Path, kernels: Path) -> None:
    words = ["--positions", "100", "--prompts", "1", "--tokens", "10", "--formats", "stored"]
    stored = run(root, "parity.py", *words, STRATA_PROVIDER_PATH=str(kernels))["formats"]["stored"]
    assert stored["rows"]["positions"] == 100
    assert stored["rows"]["max_difference"] < 1e-3
    assert stored["text"]["equal"] == 1


def test_build_times_changes_one_default(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "bench"))
    build_times = importlib.import_module("build_times")
    specs = tmp_path / "specs"
    shutil.copytree(root / "specs", specs)

    def defaults() -> dict[str, object]:
        return {knob.name: knob.default for knob in load_specs((specs,)).knobs}

    before = defaults()
    build_times.change_default(specs, "pool.spin", "100us")
    assert {name for name, value in defaults().items() if value != before[name]} == {"pool.spin"}
    with pytest.raises(SystemExit, match=r"no knob 'pool\.sping'"):
        build_times.change_default(specs, "pool.sping", "1us")
