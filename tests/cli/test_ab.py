"""`strata ab` from the command line: over doubles, and on the bundled model."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from strata_runtime.cli.main import group
from strata_runtime.provider import PATH_VARIABLE
from support.compiled import compiled_provider
from support.fake_command import answering
from support.fake_engine import patch_command_line

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"

ARMS = ("--arm", "plain:", "--arm", "wide:window.draft=ngram,STRATA_WINDOW_WIDTH=4")


@pytest.fixture
def prompts(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("abc\nabcabc\n")
    return path


@pytest.fixture
def ab(monkeypatch, folder, prompts):
    """Run the command over doubles, one for every engine; what they have drawn from is in `ab.models`."""
    models = []

    def load(*_):
        models.append(answering("héllo "))
        return models[-1]

    patch_command_line(monkeypatch, None)
    monkeypatch.setattr("strata_runtime.engine.Model.load", load)

    def run(*words, arms=ARMS, prompts=prompts):
        words = ["ab", "--model", folder, *arms, "--prompts", prompts, "--rounds", 2, "--max-tokens", 12, *words]
        return CliRunner().invoke(group, [str(word) for word in words])

    run.models = models
    return run


def test_every_engine_is_a_fresh_one_and_is_closed(ab):
    done = ab("--ignore-eos")
    assert done.exit_code == 0, done.output
    assert len(ab.models) == 2 + 2 * 2
    assert [model.closed for model in ab.models] == [1] * 6
    for shown in ("plain: the defaults", "wide: window.draft=ngram, window.width=4", "medians of 2 interleaved rounds"):
        assert shown in done.stdout
    assert "wide, decode" in done.stdout
    # Each arm says once how it is set.
    assert done.stderr.count("wide: strata") == 1


def test_json_to_stdout(ab):
    done = ab("--ignore-eos", "--json", "-", "--quiet", "--temperature", "0.5", "--seed", "9")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert [arm["name"] for arm in found["arms"]] == ["plain", "wide"]
    plain, wide = found["arms"]
    assert (plain["same_texts"], wide["same_texts"], wide["texts"]) == (4, 4, 4)
    assert plain["acceptance"] is None
    assert len(wide["decode_over_first"]["ratios"]) == 2
    assert found["sampling"]["seed"] == 9
    assert found["quality"] is None


def test_flags_hold_for_all_arms_and_an_arm_is_stronger(ab):
    arms = ("--arm", "shared:", "--arm", "own:window.width=2")
    done = ab("--ignore-eos", "--json", "-", "--draft", "ngram", "--spec", "6", arms=arms)
    assert done.exit_code == 0, done.output
    shared, own = (arm["settings"] for arm in json.loads(done.stdout)["arms"])
    assert shared == {"window.draft": "ngram", "window.width": "6"}
    assert own == {"window.draft": "ngram", "window.width": "2"}


def test_token_ids_judge_by_distance(ab, tmp_path):
    tokens = tmp_path / "tokens.json"
    tokens.write_text("[[3, 1, 4, 1, 5, 9, 2, 6], [5]]")
    done = ab("--ignore-eos", "--json", "-", "--tokens", tokens, "--window", "3")
    assert done.exit_code == 0, done.output
    quality = json.loads(done.stdout)["quality"]
    assert (quality["sequences"], quality["positions"], quality["window"]) == (2, 9, 3)
    assert quality["floor"]["buckets"][-1]["mean_kl"] == 0
    assert list(quality["arms"]) == ["wide"]
    assert quality["scale"] is None
    assert quality["why_no_scale"] == "'plain, route.tail_skip=1' leaves nothing out of these windows"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--arm", "x:verify.ecp=3"], "there is no knob 'verify.ecp'"),
        (["--arm", "x:window.widht=3"], "there is no knob 'window.widht'; did you mean 'window.width'?"),
        (["--arm", "x:window.width=9"], "--arm x: window.width"),
        (["--arm", "plain:"], "two arms have this name"),
        (["--rounds", "0"], "0 is not in the range x>=1"),
        (["--max-tokens", "1"], "1 is not in the range x>=2"),
        (["--temperature", "-1"], "temperature must be a number from 0 to 100"),
        (["--window", "9"], "9 is not in the range 1<=x<=8"),
        (["--prompts", "/no/such/file"], "/no/such/file: cannot be read"),
        (["--tokens", "/no/such/file"], "/no/such/file"),
        (["--text", "/no/such/file"], "/no/such/file: cannot be read"),
        (["--text", "a", "--tokens", "b"], "Give either --tokens or --text."),
        (["--plot", "x.bmp"], "--plot x.bmp: the name must end in .png, .svg or .pdf"),
        (["--plot", "/no/such/x"], "there is no folder /no/such"),
        (["--json", "/no/such/x.json"], "there is no folder /no/such"),
        (["--model", "/no/such/model"], "/no/such/model: no such folder or file"),
        (["--plot", "-"], "--plot -: a picture is not for standard output"),
        (
            ["--max-tokens", "99999999"],
            "--arm plain: prompt 2 has 6 tokens and --max-tokens is 99999999, more than the context of 8192: "
            "lower --max-tokens or raise engine.context",
        ),
        (["--arm", "tight:engine.context=17"], "--arm tight: prompt 2 has 6 tokens and --max-tokens is 12, more than"),
        (
            ["--engine-context", "100000", "--max-tokens", "100000"],
            "more than the context of 100000: lower --max-tokens",
        ),
        (["--arm", "wider:engine.context=100001"], "--arm wider: engine.context is 100001, more than this model's own"),
        (["--engine-context", "4"], "the prompt has 6 tokens, more than the context of 4"),
    ],
)
def test_what_is_wrong_is_one_message_before_anything_is_measured(ab, words, says):
    done = ab(*words)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert done.stdout == ""
    assert sum(len(model.passes) for model in ab.models) == 0


def test_an_error_in_a_later_round_keeps_the_rounds_before(ab, monkeypatch):
    load = ab.models.append

    def failing(*_):
        load(answering("héllo "))
        if len(ab.models) == 2 + 2 + 1:
            ab.models[-1].logits = lambda _: [float("nan")] * 300
        return ab.models[-1]

    monkeypatch.setattr("strata_runtime.engine.Model.load", failing)
    done = ab("--ignore-eos")
    assert done.exit_code == 2
    assert "medians of 1 of 2 interleaved rounds; interrupted before the end" in done.stdout
    assert "is not finite" in done.stderr


def test_ctrl_c_shows_the_rounds_that_are_complete(folder, prompts, start, tmp_path):
    out, mark = tmp_path / "out.json", tmp_path / "mark"
    words = ["--prompts", prompts, "--rounds", "100000", "--max-tokens", "8", "--ignore-eos", "--json", out]
    process = start("ab", "--model", folder, *ARMS, *words, FAKE_DELAY="0.001")
    mark.unlink()
    while not mark.exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    found = json.loads(out.read_text())
    assert found["interrupted"] is True
    assert {len(arm["rounds"]) for arm in found["arms"]} <= {found["complete_rounds"]}
    assert b"interrupted before" in shown


@pytest.mark.native
def test_the_bundled_model_as_table_json_and_plots(monkeypatch, tmp_path):
    monkeypatch.setenv(PATH_VARIABLE, str(compiled_provider().folder))
    prompts, text, out = tmp_path / "prompts.json", tmp_path / "text.py", tmp_path / "out.json"
    prompts.write_text('["def read_lines(path):", [5, 6, 7]]')
    text.write_text((ROOT / "runtime" / "strata_runtime" / "nearest.py").read_text())
    arms = (
        "--arm",
        "plain:",
        "--arm",
        "drafts:window.draft=mtp,window.width=3",
        "--arm",
        "q4:engine.expert_format=q4_0",
    )
    words = ["--model", MODEL, *arms, "--prompts", prompts, "--rounds", 1, "--max-tokens", 16, "--ignore-eos"]
    words += ["--pool-threads", 1, "--engine-context", 512, "--text", text, "--json", out, "--plot", tmp_path / "out"]
    done = CliRunner().invoke(group, ["ab", *map(str, words)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "out.svg").read_bytes()
    found = json.loads(out.read_text())
    plain, drafts, q4 = found["arms"]
    assert drafts["same_texts"] == plain["texts"] == 2
    assert 0 < drafts["acceptance"] <= 1
    assert drafts["tokens_per_window"] > plain["tokens_per_window"] == 1
    assert all(arm["peak_bytes"] > 50 << 20 for arm in (plain, drafts, q4))
    distance = {name: each["buckets"][-1] for name, each in found["quality"]["arms"].items()}
    assert found["quality"]["floor"]["buckets"][-1]["mean_kl"] == distance["drafts"]["mean_kl"] == 0
    assert found["quality"]["scale"]["name"] == "plain, route.tail_skip=7"
    assert found["quality"]["scale"]["buckets"][-1]["mean_kl"] > 1e-4
    assert distance["q4"]["mean_kl"] > 1e-4
    assert distance["q4"]["top1"] < 1
