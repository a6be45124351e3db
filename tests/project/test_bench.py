"""The measuring scripts run, on sizes too small to mean anything; speed is never a test."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFReader, dequantize

from strata_gen.paths import specs_root
from strata_gen.specs import load_specs
from strata_runtime.params import SamplingParams
from strata_runtime.provider import find_provider
from support.checkpoints import make_qwen_config, make_tensors
from support.gguf_models import named, write_model


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
def test_decode_is_measured_beside_busy_neighbours(root: Path, kernels: Path) -> None:
    words = [str(root / "examples/models/strata-tiny"), "--threads", "1", "--rounds", "1", "--tokens", "4"]
    result = run(root, "busy_neighbours.py", *words, "--neighbours", "1", STRATA_PROVIDER_PATH=str(kernels))
    assert {count: one["fair"] for count, one in result["neighbours"].items()} == {"0": 1.0, "1": 0.5}
    assert result["neighbours"]["0"]["share"] == 1
    assert result["neighbours"]["1"]["rate"] > 0


@pytest.mark.native
def test_kernels_between_the_products_are_measured_and_right(root: Path, kernels: Path) -> None:
    result = run(root, "gpu_layers.py", "--device", "cpu", "--tokens", "2", STRATA_PROVIDER_PATH=str(kernels))
    errors = [float(part) for row in result["results"] for part in row["error"].split()]
    assert max(errors) < 1e-3
    assert {row["kernel"] for row in result["results"]} > {"attend", "rms_norm", "router_topk", "embed"}


def test_the_f32_twin_means_what_the_file_does(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "bench"))
    f32_twin = importlib.import_module("f32_twin")
    config = make_qwen_config()
    weights = named(config, make_tensors(config))
    source = write_model(tmp_path / "q8_0.gguf", config, weights, form=lambda _: GGMLQuantizationType.Q8_0)
    twin = GGUFReader(f32_twin.write_f32_twin(source, tmp_path / "f32.gguf"))
    known = GGUFReader(source)
    assert {name: field.contents() for name, field in twin.fields.items()} == {
        name: field.contents() for name, field in known.fields.items()
    }
    assert len(twin.tensors) == len(known.tensors) == len(weights)
    for one, other in zip(twin.tensors, known.tensors, strict=True):
        assert one.name == other.name
        assert np.array_equal(one.data, dequantize(other.data, other.tensor_type).reshape(one.data.shape))


def test_differences_of_logits(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "bench"))
    module = importlib.import_module("vs_llama_logits")
    rows = np.log(np.random.default_rng(0).dirichlet(np.ones(40), 3))
    experts = np.array([[[0, 1], [2, 3], [4, 5]]])
    moved, rerouted = rows.copy(), experts.copy()
    moved[1, [rows[1].argmax(), rows[1].argmin()]] += (-0.1, 0.5)
    rerouted[0, 2], rerouted[0, 0] = (4, 6), (1, 0)
    following = np.array([0, int(rows[1].argmax()), 0])
    found = module.differences(module.Run(moved, rerouted), module.Run(rows, experts), following)
    assert found["next"][2] == found["top10"][2] == pytest.approx(0.1)
    assert found["all"][2] == pytest.approx(0.5)
    assert found["top10_over_bound"] == pytest.approx(1 / 3)
    assert found["same_experts"] == pytest.approx(2 / 3)


@pytest.mark.native
def test_every_kernel_of_a_package_is_timed_by_its_name(root: Path, kernels: Path) -> None:
    words = ["--threads", "1", "--mebibytes", "0.25", "--rounds", "1"]
    result = run(root, "kernels.py", *words, STRATA_PROVIDER_PATH=str(kernels))
    native: Any = find_provider({"STRATA_PROVIDER_PATH": str(kernels)}).native
    timed = {row["name"] for row in result["results"]}
    (held,) = native.kernel_names().values()
    assert set(held) < timed
    expected = {kernel.name for kernel in load_specs((specs_root(),)).kernels if "cpu" in kernel.backends}
    assert {name.partition(".")[0] for name in timed} == expected
    assert result["not_runnable_here"] == []
    assert all(row["bytes"] > 0 and row["microseconds"] > 0 and row["share"] > 0 for row in result["results"])


@pytest.mark.native
def test_a_name_its_begin_or_a_pattern_selects_kernels(root: Path, kernels: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "STRATA_PROVIDER_PATH": str(kernels)}
    isa = find_provider(environment).native.ISA

    def listed(pattern: str) -> subprocess.CompletedProcess[str]:
        words = [sys.executable, root / "bench" / "kernels.py", "--kernel", pattern, "--list"]
        return subprocess.run(words, env=environment, capture_output=True, text=True)

    for pattern, name in (
        ("combine", "combine"),
        ("rows_dot.q8_0.int8.t3", f"rows_dot.q8_0.int8.t3.{isa}"),
        (f"rows_dot.q8_0.int8.t3.{isa}", f"rows_dot.q8_0.int8.t3.{isa}"),
        ("quantize*int8.*", f"quantize_input.int8.{isa}"),
    ):
        assert listed(pattern).stdout.split() == [name]
    for pattern in ("rows_dot.q8_0.int8.t3.sse9", "rows"):
        refused = listed(pattern)
        assert refused.returncode == 2
        assert f"is named '{pattern}'" in refused.stderr


@pytest.mark.native
def test_parity_is_close_as_stored(root: Path, kernels: Path) -> None:
    words = ["--positions", "100", "--prompts", "1", "--tokens", "10", "--formats", "stored"]
    stored = run(root, "parity.py", *words, STRATA_PROVIDER_PATH=str(kernels))["formats"]["stored"]
    assert stored["rows"]["positions"] == 100
    assert stored["rows"]["max_difference"] < 1e-3
    assert stored["text"]["equal"] == 1


@pytest.mark.native
def test_drafts_leave_the_text_alone(root: Path, kernels: Path) -> None:
    words = ["--prompts", "2", "--tokens", "20", "--threads", "1", "--arms", "mtp:2", "ngram:auto"]
    tables = run(root, "drafts.py", *words, STRATA_PROVIDER_PATH=str(kernels))["temperatures"]
    assert set(tables) == {"0", "1"}
    for arms in tables.values():
        assert [(arm["arm"], arm["equal"]) for arm in arms] == [("none", 2), ("mtp:2", 2), ("ngram:auto", 2)]
        assert arms[1]["tokens_per_pass"] > 1


@pytest.mark.native
def test_text_with_drafts_is_compared_token_by_token(root: Path, kernels: Path) -> None:
    words = ["--prompts", "2", "--tokens", "16", "--threads", "1", "--arms", "ngram:3", "mtp:auto"]
    rows = run(root, "draft_equality.py", *words, STRATA_PROVIDER_PATH=str(kernels))["rows"]
    assert [(row["arm"], row["temperature"]) for row in rows] == [
        ("ngram:3", 0), ("ngram:3", 1), ("mtp:auto", 0), ("mtp:auto", 1),
    ]  # fmt: skip
    assert [(row["equal"], row["tokens"], row["differences"]) for row in rows] == [(2, 32, [])] * 4


def test_a_difference_of_texts_is_a_near_tie_or_not(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(root / "bench"))
    module = importlib.import_module("draft_equality")
    row = np.log(np.array([0.5, 0.3, 0.2], np.float32))
    greedy, drawn = SamplingParams(temperature=0, seed=1), SamplingParams(temperature=1, seed=1)
    assert module.gap_of(row, greedy, 7, 0, 1) == pytest.approx(np.log(0.5 / 0.3))
    uniform = {0.49995: (5e-5, 0.30005), 0.79: (0.0, 0.01), 0.1: (0.4, 0.7)}
    for number, (to_second, to_third) in uniform.items():
        monkeypatch.setattr(module.CounterUniform, "at", lambda _self, _position, number=number: number)
        assert module.gap_of(row, drawn, 7, 0, 1) == pytest.approx(min(to_second, np.log(0.5 / 0.3)), abs=1e-6)
        assert module.gap_of(row, drawn, 7, 0, 2) == pytest.approx(min(to_third, np.log(0.5 / 0.2)), abs=1e-6)

    class Reader:
        def logprob_rows(self, ids: list[int], window: int) -> list[np.ndarray]:
            assert (ids, window) == ([9, 9, 1, 2], 1)
            return [np.zeros((1, 3), np.float32), row[None]]

    texts = [(1, 2, 0), (1, 2, 2)], [(1, 2, 0), (1, 2, 1)]
    (found,) = module.differences(Reader(), [(9, 9), (9, 9)], 0.0, *texts)
    assert (found.prompt, found.token, found.without, found.drafted) == (1, 2, 2, 1)
    assert not found.is_near_tie
    assert module.Difference(0, 0, 1, 2, 9e-5).is_near_tie


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


@pytest.mark.native
def test_approximations_of_windows_are_judged_beside_an_independent_evaluation(root: Path, kernels: Path) -> None:
    found = run(root, "window_arms.py", "--positions", "60", STRATA_PROVIDER_PATH=str(kernels))
    arms = {row["arm"]: row for row in found["arms"]}
    assert arms["exact again"]["same_bits"] and arms["ecap 40"]["same_bits"]
    assert arms["all late"]["kl"] == pytest.approx(arms["all late"]["independent_kl"], rel=0.03)


@pytest.mark.native
def test_a_server_is_measured_under_load(root: Path, kernels: Path) -> None:
    sizes = ["--slots", "2", "--clients", "3", "--requests", "1", "--tokens", "4", "--rounds", "1"]
    result = run(root, "serve_load.py", *sizes, STRATA_PROVIDER_PATH=str(kernels))
    assert {count: each["requests"] for count, each in result["clients"].items()} == {"1": 2, "3": 3}
    assert all(each["tokens_per_second"] > 0 for each in result["clients"].values())
    assert all(each["first_token_99_s"] >= each["first_token_median_s"] > 0 for each in result["clients"].values())
