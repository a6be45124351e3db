"""`strata bench` on the bundled model, on a GGUF file without text, and with what users get wrong."""

from __future__ import annotations

import errno
import json
import signal
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from strata_runtime.cli.main import group
from strata_runtime.provider import PATH_VARIABLE
from support.compiled import compiled_provider

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "examples" / "models" / "strata-tiny"
GGUF = next((ROOT / "tests" / "gguf" / "reference").glob("*qwen3moe*.gguf"))

SMALL = ("--prompt", "9", "--decode", "2", "--window", "1,3", "--rounds", "2", "--threads", "1")


@pytest.fixture
def bench(strata, folder):
    """Run the command over doubles."""
    return lambda *args: strata("bench", "--model", folder, *args)


def run_real(model, *args):
    return CliRunner().invoke(group, ["bench", "--model", str(model), *SMALL, *map(str, args)])


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setenv(PATH_VARIABLE, str(compiled_provider().folder))


@pytest.mark.native
def test_the_bundled_model_as_table_json_and_plot(compiled, tmp_path):
    out, plot = tmp_path / "out.json", tmp_path / "out.png"
    done = run_real(MODEL, "--context", "0,20", "--json", out, "--plot", plot, "--quiet")
    assert done.exit_code == 0, done.output
    found = json.loads(out.read_text())
    assert len(found["results"]) == 4 * 2
    assert plot.read_bytes().startswith(b"\x89PNG")
    for row in found["results"]:
        kind, parts = row["kind"], {part["name"]: part for part in row["parts"]}
        assert len(row["samples"]) == 2
        assert sum(part["seconds"] for part in parts.values()) > 0
        assert 0 < parts["experts"]["bytes"] <= found["model"]["expert_bytes"] * (2 if kind == "prompt" else 1)
        assert parts["head"]["bytes"] == found["model"]["head_bytes"]
        assert (row["over_one_token"] is not None) == (kind == "window")
    for shown in ("prompt", "9 tokens", "T=3", "over T=1", "peak memory", "memory reads", "where the time goes"):
        assert shown in done.stdout
    assert done.stderr == ""


@pytest.mark.native
def test_a_file_without_text_and_json_to_stdout(compiled):
    done = run_real(GGUF, "--json", "-", "--seed", "3")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert found["model"]["family"] == "qwen3_moe"
    assert found["seed"] == 3
    weights = found["model"]
    assert weights["expert_bytes"] + weights["dense_bytes"] + weights["head_bytes"] <= weights["checkpoint_bytes"]


def test_several_threads_are_measured_on_one_model(bench, monkeypatch):
    monkeypatch.setattr("strata_runtime.cli.bench.usable_cpus", lambda: 4)
    done = bench("--threads", "1,2-3", "--prompt", "none", "--window", "none", "--rounds", "1", "--json", "-")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert [row["threads"] for row in found["results"]] == [1, 2, 3]
    assert [row["threads"] for row in found["read_bandwidth"]] == [1, 2, 3]


def test_threads_are_as_the_knob_says_unless_asked_for(bench):
    done = bench("--prompt", "none", "--window", "none", "--rounds", "1", "--json", "-")
    assert [row["threads"] for row in json.loads(done.stdout)["results"]] == [3]  # those of the double's pool


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--rounds", "0"], "'--rounds': 0 is not in the range x>=1"),
        (["--threads", "1,4096"], "--threads 4096: this process may use"),
        (["--threads", "0"], "0 is out of range: numbers must be at least 1"),
        (["--prompt", "0"], "numbers must be at least 1"),
        (["--prompt", "five"], "'five' is no whole number and no range; give such as 1,4 or 1-8, or 'none'"),
        (["--decode", "-3"], "'-3' is no whole number"),
        (["--window", "9"], "9 is out of range: numbers must be from 1 to 8"),
        (["--window", "4-2"], "the range 4-2 ends before it begins"),
        (["--window", "1,,2"], "'' is no whole number"),
        (["--context", "0-5000"], "has more than 1000 numbers"),
        (["--context", "none"], "'none' is no whole number and no range; give such as 1,4 or 1-8"),
        (["--prompt", "none", "--decode", "none", "--window", "none"], "nothing is left to measure"),
        (
            ["--context", "99999"],
            "--prompt 512 behind a context of 99999 needs 100511 positions, more than this model's",
        ),
        (["--engine-context", "100"], "--prompt 512 needs 512 positions, more than engine.context of 100"),
        (["--seed", "-1"], "-1 is not in the range x>=0"),
        (["--plot", "x.bmp"], "--plot x.bmp: the name must end in .png, .svg or .pdf"),
        (["--plot", "/no/such/x.png"], "there is no folder /no/such"),
        (["--json", "/no/such/x.json"], "there is no folder /no/such"),
        (["--json", "/"], "--json /: a folder; name the file to write"),
        (["--json", "x" * 300], "no file can have this name"),
        (["--pool-threds", "1"], "Did you mean"),
    ],
)
def test_what_is_wrong_is_said_at_once(bench, words, says):
    done = bench(*words)
    assert done.exit_code == 2
    assert says in " ".join(done.stderr.split())
    assert done.stdout == ""


def test_a_plot_without_matplotlib_says_how_to_get_it(bench, monkeypatch, tmp_path):
    monkeypatch.setattr("strata_runtime.bench.plot.find_spec", lambda _: None)
    done = bench("--plot", tmp_path / "x.png")
    assert done.exit_code == 2
    assert "pip install 'strata-gen[plot]'" in done.stderr


def test_a_file_that_cannot_be_written_is_one_message(bench, monkeypatch, tmp_path):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    words = ["--rounds", "1", "--prompt", "none", "--window", "none", "--decode", "1"]
    done = bench(*words, "--json", tmp_path / "x.json")
    assert done.exit_code == 2
    assert "x.json: cannot be written: No space left on device" in done.stderr


def test_ctrl_c_shows_what_there_is(folder, start, tmp_path):
    words = ["--threads", "1", "--prompt", "none", "--window", "none", "--decode", "1", "--rounds", "100000"]
    out, mark = tmp_path / "out.json", tmp_path / "mark"
    process = start("bench", "--model", folder, *words, "--json", out, FAKE_DELAY="0.01")
    mark.unlink()
    while not mark.exists() and process.poll() is None:  # the first pass belongs to loading
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    shown, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert b"interrupted before the end" in shown
    assert json.loads(out.read_text())["interrupted"] is True
