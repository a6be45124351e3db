"""Windows wider than the package's device kernels take are refused before the model is loaded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from support.fake_engine import KNOBS, FakeProvider


@pytest.fixture
def narrow(monkeypatch, strata, folder, tmp_path):
    """Run a command over a package whose kernels take windows of 4 tokens; returns its result."""
    knobs = [replace(knob, default=4, declared=4) if knob.name == "window.max_tokens" else knob for knob in KNOBS]
    monkeypatch.setattr("strata_runtime.cli.knob_command.find_provider", lambda _: FakeProvider(knobs=tuple(knobs)))
    words = {"MODEL": folder, "IDS": tmp_path / "ids.json", "OUT": tmp_path / "out.npz"}
    words["IDS"].write_text(json.dumps([[3, 1, 4, 1, 5, 9]]))

    def loading(*_):
        raise AssertionError("loads the model")

    def run(*arguments, loads=False):
        if not loads:
            monkeypatch.setattr("strata_runtime.engine.Model.load", loading)
        return strata(*(words.get(word, word) for word in arguments))

    return run


LOGPOS = ("eval", "logpos", "--model", "MODEL", "--tokens", "IDS", "--out", "OUT", "--window")
WHY = "a window of 5 tokens is more than the 4 that this package's device kernels take: rebuild it with --set "


@pytest.mark.parametrize(
    "knob", [("--verify-ecap", 6), ("--route-tail-skip", 1), ("--expert-cache", 1), ("--verify-defer-cpu", "check")]
)
def test_records_are_read_in_windows_that_kernels_take(narrow, knob):
    done = narrow(*LOGPOS, 5, *knob)
    assert done.exit_code == 2, done.output
    assert f"--window: {WHY}window.max_tokens=5" in done.stderr


def test_windows_without_device_kernels_may_be_wider(narrow):
    assert narrow(*LOGPOS, 5, loads=True).exit_code == 0


def test_windows_of_a_benchmark(narrow):
    done = narrow("bench", "--model", "MODEL", "--window", "1-5", "--verify-ecap", 6)
    assert done.exit_code == 2, done.output
    assert f"--window: {WHY}" in done.stderr


def test_windows_that_arms_are_judged_by(narrow):
    arms = ("--arm", "plain:", "--arm", "capped:verify.ecap=6")
    done = narrow("ab", "--model", "MODEL", *arms, "--prompts", "IDS", "--tokens", "IDS", "--window", 5)
    assert done.exit_code == 2, done.output
    assert f"--arm capped: --window: {WHY}" in done.stderr


def test_windows_of_drafts(narrow):
    done = narrow("generate", "--model", "MODEL", "--prompt", "a", "--draft", "ngram", "--spec", 5)
    assert done.exit_code == 2, done.output
    assert "window.width is 5, and this package's kernels take windows of at most 4 tokens" in done.stderr
