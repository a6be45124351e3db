"""`strata bench serve` on the bundled model, and with what users get wrong."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner

from strata_runtime.cli.main import group
from strata_runtime.provider import PATH_VARIABLE
from support.compiled import compiled_provider

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
SMALL = ("--prompt-tokens", "150", "--stream-tokens", "200", "--warm", "0.02", "--seconds", "0.3", "--compare", "6")
ONCE = ("--rounds", "1")
KNOBS = ("--engine-context", "400", "--engine-prompt-chunk", "64")


@pytest.fixture
def serve(strata, folder):
    """Run the command over doubles."""
    return lambda *args: strata("bench", "serve", "--model", folder, "--engine-context", "400", *args)


@pytest.fixture
def real(monkeypatch):
    monkeypatch.setenv(PATH_VARIABLE, str(compiled_provider().folder))
    return lambda *args: CliRunner().invoke(
        group, ["bench", "serve", "--model", str(MODEL), *SMALL, *ONCE, *KNOBS, *map(str, args)]
    )


@pytest.mark.native
def test_every_scenario_in_every_mode_as_tables_json_and_plot(real, tmp_path):
    out, plot = tmp_path / "out.json", tmp_path / "out.png"
    done = real("--json", out, "--plot", plot, "--quiet")
    assert done.exit_code == 0, done.output
    assert done.stderr == ""
    assert plot.read_bytes().startswith(b"\x89PNG")
    found = json.loads(out.read_text())
    assert (found["slots"], found["context"], found["problems"]) == (4, 400, [])
    assert [each["played"]["name"] for each in found["scenarios"]] == ["cold32k", "followup", "two_joiners", "random"]
    for scenario in found["scenarios"]:
        assert [mode["name"] for mode in scenario["modes"]] == ["off", "pieces", "beside"]
        assert scenario["over"] == "off"
        off, pieces, beside = scenario["modes"]
        assert (off["ratios"], pieces["piece"], beside["piece"]) == ({}, 64, 0)
        for mode in (off, pieces, beside):
            (felt,) = mode["rounds"]
            assert felt["peak_bytes"] > 0
            if scenario["played"]["name"] == "random":
                assert felt["requests"] == felt["finished"] + felt["left"] > 0
                assert (felt["wrong"], felt["lost"]) == (0, 0)
            else:
                assert felt["total"] >= felt["joiner"] > 0
                assert len(felt["streams"]) == 2
                assert (felt["question"] is not None) == (scenario["played"]["name"] == "followup")
        assert beside["ratios"]["longest pause, s"]["ratios"][0] > 0
    for shown in ("a prompt of 150 tokens joins 2 streams of 200 tokens", "beside/off", "stream 2: tokens/s while"):
        assert shown in done.stdout


@pytest.mark.native
def test_a_mode_that_other_knobs_turn_off_is_refused_in_their_words(real):
    done = real("--mode", "beside", "--batch-slots", "1")
    assert done.exit_code == 2
    assert "--mode beside: piped.concurrent=true" in done.stderr
    assert "nothing decodes beside the one slot's prompt" in done.stderr
    assert real("--mode", "off", "--scenario", "random", "--batch-slots", "1").exit_code == 0


@pytest.mark.native
def test_what_the_model_holds_bounds_the_prompts(real):
    done = real("--engine-context", "0", "--prompt-tokens", "8177")
    assert done.exit_code == 2
    said = "--prompt-tokens 8177: with an answer of 16, the model's context of 8192 holds 8176"
    assert said in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--scenario", "follow_up"], "did you mean 'followup'?"),
        (["--mode", "besides"], "did you mean 'beside'?"),
        (["--mode", "x"], "'x' is not one of 'off', 'pieces', 'beside'"),
        (["--rounds", "0"], "0 is not in the range x>=1"),
        (["--streams", "0"], "0 is not in the range x>=1"),
        (["--seconds", "0"], "0.0 is not in the range x>=0.1"),
        (["--seconds", "nan"], "nan is no number of seconds"),
        (["--seconds", "inf"], "inf is no number of seconds"),
        (["--warm", "nan"], "nan is no number of seconds"),
        (["--warm", "inf"], "inf is no number of seconds"),
        (["--prompt-tokens", "385"], "--prompt-tokens 385: with an answer of 16, engine.context of 400 holds 384"),
        (["--stream-tokens", "385"], "--stream-tokens 385: behind 16 of a prompt, engine.context of 400 holds 384"),
        (["--batch-slots", "3"], "batch.slots is 3: 2 streams and the prompts that join them need 4"),
        (["--batch-queue", "5"], "batch.queue is 5: a random load has up to 6 requests at once"),
        (["--batch-prefix", "on"], "batch.prefix=on may change"),
        (["--plot", "x.bmp"], "--plot x.bmp: the name must end in .png, .svg or .pdf"),
        (["--json", "/no/such/x.json"], "there is no folder /no/such"),
        (["--pool-threds", "1"], "Did you mean"),
    ],
)
def test_what_is_wrong_is_said_at_once(serve, words, says):
    done = serve(*words)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_plot_without_matplotlib_says_how_to_get_it(serve, monkeypatch, tmp_path):
    monkeypatch.setattr("strata_runtime.bench.plot.find_spec", lambda _: None)
    done = serve("--plot", tmp_path / "x.png")
    assert done.exit_code == 2
    assert "pip install 'strata-gen[plot]'" in done.stderr


def test_a_load_whose_texts_differ_ends_with_one(serve, monkeypatch):
    monkeypatch.setattr("strata_runtime.bench.serving.rounds.wrong_texts", lambda *_: 1)
    done = serve("--scenario", "random", "--mode", "off", *SMALL, *ONCE)
    assert done.exit_code == 1
    assert "wrong: random, off: 1 of " in done.stdout


@pytest.mark.parametrize("scenario", ["cold32k", "random"])
def test_ctrl_c_shows_what_there_is(folder, start, tmp_path, scenario):
    words = ["--scenario", scenario, "--mode", "off", "--rounds", "100000", "--seconds", "1000", "--warm", "0.1"]
    out = tmp_path / "out.json"
    sizes = ["--engine-context", "400", "--prompt-tokens", "40", "--stream-tokens", "20"]
    process = start("bench", "serve", "--model", folder, *words, *sizes, "--json", out)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"interrupted before the end" in shown
    assert json.loads(out.read_text())["interrupted"] is True
    assert sorted(path.name for path in tmp_path.iterdir() if "out" in path.name) == ["out.json"]


def test_the_command_of_two_words_is_listed_and_leaves_the_other_alone(strata):
    assert "bench serve" in strata("--help").stdout
    assert "--scenario" in strata("bench", "serve", "--help").stdout
    assert "--scenario" not in strata("bench", "--help").stdout
    assert "--window" in strata("bench", "--help").stdout
