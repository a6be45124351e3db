"""The commands around the hybrid path: counting experts, records of a prompt, and where the time went."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from strata_runtime.cli.main import group
from strata_runtime.evaluation.record import load_record
from strata_runtime.hybrid.placement import read_profile
from strata_runtime.phases import PHASES, Stopwatch, WindowPhases
from strata_runtime.provider import PATH_VARIABLE, Provider

pytestmark = pytest.mark.native

MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "strata-tiny"
MIXTURES, EXPERTS, TOP_K = 6, 48, 8

Strata = Callable[..., Result]


@pytest.fixture
def strata(provider: Provider) -> Strata:
    def run(*arguments: object, **variables: str) -> Result:
        environment = {PATH_VARIABLE: str(provider.folder), **variables}
        result = CliRunner().invoke(group, list(map(str, arguments)), env=environment)
        assert result.exit_code == 0, result.output
        return result

    return run


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps([[5, 6, 7, 8, 9, 10, 11], [12, 13]]))
    return path


def test_a_profile_counts_every_choice(strata: Strata, tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    said = strata("profile", "--model", MODEL, "--tokens", tokens, "--out", out).stdout
    assert said == f"9 tokens through 6 layers of 48 experts: {out}\n"
    profile = read_profile(out, MIXTURES, EXPERTS)
    assert profile.tokens == 9
    assert (profile.counts.sum(axis=1) == 9 * TOP_K).all()


def test_a_profile_makes_the_cache_hit_what_it_counted(strata: Strata, tokens: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    strata("profile", "--model", MODEL, "--tokens", tokens, "--out", out)
    counts = read_profile(out, MIXTURES, EXPERTS).counts
    used = int((counts > 0).sum())
    record = tmp_path / "record.npz"
    chosen = ("--expert-cache", used, "--expert-profile", out)
    # Every expert that the text asks for has a slot, so leaving out all others leaves out nothing.
    strata("eval", "logpos", "--model", MODEL, "--tokens", tokens, "--out", record, *chosen, "--route-tail-skip", 1)
    strata("eval", "logpos", "--model", MODEL, "--tokens", tokens, "--out", tmp_path / "without.npz", *chosen)
    with_skip, without = load_record(record), load_record(tmp_path / "without.npz")
    assert np.array_equal(with_skip.top_logprobs, without.top_logprobs)


def test_the_variable_writes_a_record_of_the_prompt(strata: Strata, tokens: Path, tmp_path: Path) -> None:
    out, other = tmp_path / "prompt.npz", tmp_path / "other.npz"
    ids = json.loads(tokens.read_text())[0]
    generate = ("generate", "--model", MODEL, "--prompt-ids", ",".join(map(str, ids)), "--max-tokens", 2)
    text = strata(*generate, "--temperature", 0).stdout
    assert strata(*generate, "--temperature", 0, STRATA_LOGPOS=str(out)).stdout == text
    strata("eval", "logpos", "--model", MODEL, "--tokens", tokens, STRATA_LOGPOS=str(other))
    record, both = load_record(out), load_record(other)
    assert record.positions == len(ids)
    assert np.array_equal(record.top_ids, both.top_ids[: len(ids)])
    assert np.array_equal(record.top_logprobs, both.top_logprobs[: len(ids)])


def test_a_record_needs_a_place(provider: Provider, tokens: Path) -> None:
    environment = {PATH_VARIABLE: str(provider.folder)}
    arguments = ["eval", "logpos", "--model", str(MODEL), "--tokens", str(tokens)]
    result = CliRunner().invoke(group, arguments, env=environment)
    assert result.exit_code == 2
    assert "--out FILE.npz, or the variable STRATA_LOGPOS" in result.output


def test_the_time_of_windows_is_told_by_phase(strata: Strata) -> None:
    generate = ("generate", "--model", MODEL, "--prompt", "import os", "--max-tokens", 6, "--temperature", 0)
    deferred = ("--verify-profile", "--verify-defer-cpu", 1)
    closing = strata(*generate, *deferred).stderr.splitlines()[-1]
    assert "; 5 windows of " in closing
    assert all(f"{phase} " in closing for phase in PHASES)
    found = json.loads(strata(*generate, *deferred, "--json").stdout)["phases"]
    assert found["windows"] == 5
    assert all(found[phase] > 0 for phase in PHASES)
    assert json.loads(strata(*generate, "--json").stdout)["phases"] is None


def test_a_stopwatch_adds_laps_and_counts_windows_that_came_to_an_end() -> None:
    times = iter([10.0, 11.0, 13.0, 20.0, 20.5, 30.0, 31.0])
    watch = Stopwatch(lambda: next(times))
    watch.start()
    watch.lap("mixer")
    watch.lap("experts")
    watch.stop()
    first = watch.phases
    assert first == WindowPhases(windows=1, mixer=1.0, experts=2.0)
    watch.start()
    watch.lap("mixer")
    watch.start()
    watch.lap("waits")
    watch.stop()
    assert watch.phases == WindowPhases(windows=2, mixer=1.5, experts=2.0, waits=1.0)
    assert watch.phases.since(first) == WindowPhases(windows=1, mixer=0.5, waits=1.0)


def refused(provider: Provider, *arguments: object, **variables: str) -> str:
    """Return what a command says that is refused before the model is loaded."""
    environment = {PATH_VARIABLE: str(provider.folder), **variables}
    result = CliRunner().invoke(group, list(map(str, arguments)), env=environment)
    assert result.exit_code == 2, result.output
    assert "loading layer" not in result.stderr
    return result.stderr


def test_notes_of_the_model_look_like_those_of_knobs(strata: Strata) -> None:
    generate = ("generate", "--model", MODEL, "--prompt", "import os", "--max-tokens", 1)
    cap = "verify.ecap is 3, at most the 8 experts of one token: no token of a window behind the first keeps any"
    slots = "expert.cache is 999: all of the model's 288 experts have slots"
    generated = strata(*generate, "--verify-ecap", 3, "--expert-cache", 999).stderr.splitlines()
    assert {f"strata: {slots}", f"strata: {cap}"} <= set(generated)
    passes = ("--prompt", "none", "--decode", "none", "--window", 1, "--rounds", 1, "--verify-ecap", 3)
    assert f"strata: {cap}" in strata("bench", "--model", MODEL, *passes).stderr.splitlines()


def test_a_line_names_the_flag_that_was_typed(strata: Strata) -> None:
    generate = ("generate", "--model", MODEL, "--prompt", "import os", "--max-tokens", 1)
    why = 'is ignored: it is read only while window.draft != "none"'
    assert f"window.width=4 (command line --spec) {why}" in strata(*generate, "--spec", 4).stderr
    assert f"window.width=4 (command line --window-width) {why}" in strata(*generate, "--window-width", 4).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("bench", "--prompt", "none", "--decode", 1, "--window", "none", "--rounds", 1),
        ("profile", "--tokens", "TOKENS", "--out", "OUT"),
    ],
)
def test_a_record_that_nobody_writes_is_said(
    strata: Strata, tokens: Path, tmp_path: Path, arguments: tuple[object, ...]
) -> None:
    first, *others = ({"TOKENS": tokens, "OUT": tmp_path / "profile.json"}.get(str(one), one) for one in arguments)
    said = strata(first, "--model", MODEL, *others, STRATA_LOGPOS=str(tmp_path / "x.npz")).stderr
    line = "strata: eval.logpos is ignored here: 'strata generate' and 'strata eval logpos' write such a file"
    assert said.splitlines().count(line) == 1
    assert not (tmp_path / "x.npz").exists()


def test_a_record_that_is_written_needs_no_word(strata: Strata, tokens: Path, tmp_path: Path) -> None:
    said = strata("eval", "logpos", "--model", MODEL, "--tokens", tokens, STRATA_LOGPOS=str(tmp_path / "x.npz")).stderr
    assert "is ignored" not in said


def test_a_benchmark_gives_the_host_half_its_threads_and_counts_its_experts(
    strata: Strata, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    native, halves = provider.native, []
    make_half = native.make_host_half

    def noting(pool: Any, *others: Any) -> Any:
        halves.append(pool.threads)
        return make_half(pool, *others)

    monkeypatch.setattr("strata_runtime.cli.bench.usable_cpus", lambda: 2)
    monkeypatch.setattr(native, "make_host_half", noting)
    passes = ("--prompt", "none", "--decode", "none", "--window", "1,4", "--threads", "1,2", "--rounds", 1)
    bench = ("bench", "--model", MODEL, *passes, "--json", "-", "--quiet")
    plain = json.loads(strata(*bench).stdout)["results"]
    assert halves == []
    shared = json.loads(strata(*bench, "--verify-defer-cpu", "check", "--expert-cache", 100).stdout)["results"]
    assert halves == [1, 2]
    for direct, hybrid in zip(plain, shared, strict=True):
        own, experts = (next(part for part in row["parts"] if part["name"] == "experts") for row in (direct, hybrid))
        assert experts["bytes"] == pytest.approx(own["bytes"], rel=0.02)
