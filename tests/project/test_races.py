"""The races beside peers run, on sizes too small to mean anything, with doubles of the peers; speed is never a test."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

MODEL = Path(__file__).resolve().parents[1] / "gguf" / "reference" / "qwen3moe-e16-q4_k.gguf"

LLAMA_BENCH = """
import json, sys
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
assert words["-o"] == "json" and words["-t"] == "1" and words["-m"].endswith(".gguf")
row = lambda prompt, gen, rate: dict(n_prompt=prompt, n_gen=gen, samples_ts=[rate] * int(words["-r"]))
print(json.dumps([row(int(words["-p"]), 0, 2.0), row(0, int(words["-n"]), 4.0)]))
"""

BACKEND_OPS = """
import sys
for line in open(sys.argv[sys.argv.index("--test-file") + 1]):
    number, _, rows, *_, name = line.split()
    assert number == "30"
    print(f"  MUL_MAT_ID(name={name},type=f32): 9 runs - {int(rows) / 2} us/run - 5 kB/run")
"""


def program(path: Path, code: str) -> Path:
    """Write a program of Python."""
    path.write_text(f"#!{sys.executable}\n{code}")
    path.chmod(0o755)
    return path


def start(root: Path, script: str, *words: str, kernels: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "STRATA_PROVIDER_PATH": str(kernels)}
    command = [sys.executable, str(root / "bench" / script), *words, "--json"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


@pytest.fixture
def blocks(root: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(root / "bench"))
    return importlib.import_module("blocks")


@pytest.mark.native
def test_the_race_pairs_the_rounds_of_both(root: Path, kernels: Path, tmp_path: Path) -> None:
    peer = program(tmp_path / "llama-bench", LLAMA_BENCH)
    words = ["--llama-bench", str(peer), "--threads", "1", "--tokens", "2", "--rounds", "2", "--repetitions", "1"]
    done = start(root, "vs_llama_cpp.py", str(MODEL), *words, kernels=kernels)
    assert done.returncode == 0, done.stderr
    (race,) = json.loads(done.stdout)["races"]
    assert set(race["cases"]) == {"decode", "prompt of 5"}
    assert race["cases"]["prompt of 5"]["llama.cpp"]["median"] == 2.0
    decode = race["cases"]["decode"]
    assert decode["llama.cpp"]["median"] == 4.0
    assert len(decode["ratios"]) == 2
    assert decode["ratio"]["max"] == pytest.approx(decode["strata"]["max"] / 4.0)
    assert sum(decode["parts"].values()) == pytest.approx(1.0)


@pytest.mark.native
def test_a_peer_that_fails_is_named_with_its_message(root: Path, kernels: Path, tmp_path: Path) -> None:
    peer = program(tmp_path / "llama-bench", "import sys; sys.exit('no such model')")
    words = [str(MODEL), "--llama-bench", str(peer), "--threads", "1", "--tokens", "1"]
    done = start(root, "vs_llama_cpp.py", *words, kernels=kernels)
    assert done.returncode == 1
    assert "ended with exit code 1:\nno such model" in done.stderr


@pytest.mark.native
def test_the_block_alone_is_measured_without_peers(root: Path, kernels: Path) -> None:
    words = ["--formats", "iq3_s", "--tokens", "1", "--rounds", "1", "--threads", "1"]
    done = start(root, "moe_block.py", *words, kernels=kernels)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)["rows"]
    assert (row["arm"], row["format"], row["tokens"], row["difference"]) == ("strata", "iq3_s", 1, 0.0)
    read = row["bytes_per_second"] * row["microseconds"]["median"] / 1e6
    assert read == pytest.approx(8 * 3 * 2048 * 768 / 256 * 110)


@pytest.mark.native
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--formats", "q4_k,q9"], "no q9; there are f16, bf16, q4_0"),
        (["--tokens", "1,65"], "numbers from 1 to 64 with commas between, not 1,65"),
        (["--tokens", "x"], "numbers from 1 to 64 with commas between, not x"),
        (["--rounds", "0"], "--rounds: at least 1"),
    ],
)
def test_wrong_lists_are_refused(root: Path, kernels: Path, words: list[str], says: str) -> None:
    done = start(root, "moe_block.py", *words, kernels=kernels)
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())


def test_layouts_are_those_of_gguf(blocks: Any) -> None:
    for layout in blocks.LAYOUTS.values():
        assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(layout.ggml_type)] == (layout.values, layout.bytes)


@pytest.mark.parametrize("name", ["f16", "bf16", "q4_0", "q8_0", "q4_k", "q6_k", "iq3_s"])
def test_weights_are_about_as_large_as_those_of_a_model(blocks: Any, name: str) -> None:
    gate, up, down = blocks.expert_weights(name, 5)
    assert len({len(each[0]) for each in (gate, up, down)}) == 1
    assert (gate[0] == gate[4]).all()
    assert (gate[0] != gate[1]).any()
    values = gguf.dequantize(down[2], gguf.GGMLQuantizationType(blocks.LAYOUTS[name].ggml_type))
    assert 0.008 < np.abs(values).mean() < 0.05


def test_every_process_makes_the_same_calls(blocks: Any) -> None:
    first, again = (blocks.calls_of(4, 128, 3, walk=True) for _ in range(2))
    assert all((a.ids == b.ids).all() and (a.x == b.x).all() for a, b in zip(first, again, strict=True))
    assert all(len(set(row)) == blocks.TOP_K for call in first for row in call.ids.tolist())


def test_calls_of_one_token_walk_through_all_experts(blocks: Any) -> None:
    calls = blocks.calls_of(1, 128, 1, walk=True)
    assert sorted(number for call in calls for number in call.ids[0].tolist()) == list(range(128))
    assert blocks.distinct(calls) == 8
    assert len({id(call) for call in blocks.calls_of(1, 8, 1, walk=False)}) == 1


def test_times_of_the_operations_add_up_to_the_block(
    blocks: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operations = importlib.import_module("moe_operations")
    monkeypatch.setattr(operations, "operation_number", lambda _: 30)
    program(tmp_path / "test-backend-ops", BACKEND_OPS)
    assert operations.backend_ops(tmp_path, "q8_0", 4) == pytest.approx((2 * 384 + 1024) / 1e6)
    assert operations.operation(30, "q8_0", 4, 768, 2048) == (
        "30 0 768 8 4 1 0 3 8 2048 768 8 1 34 2176 1671168 13369344 0 2048 1 4 1 4 8192 8192 32768 "
        "26 8 4 1 1 4 32 128 128 rows768"
    )
