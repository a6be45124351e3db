"""`strata eval`: records of log-probabilities, and their comparison, from the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest

from strata_runtime.evaluation.record import TOP, load_record


@pytest.fixture
def tokens(tmp_path):
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps([[3, 1, 4, 1, 5, 9, 2, 6], [5], [3, 5, 8]]))
    return path


@pytest.fixture
def logpos(strata, folder, tokens, tmp_path):
    """Write a record; returns the result of the command and the record's path."""

    def run(name, *more):
        out = tmp_path / name
        strata.model.closed = False  # one double for every run of a test
        return strata("eval", "logpos", "--model", folder, "--tokens", tokens, "--out", out, *more), out

    return run


def test_a_record_has_a_row_for_every_position(logpos):
    result, out = logpos("a.npz", "--window", 3)
    assert result.exit_code == 0, result.output
    assert f"12 positions of 3 sequences in windows of 3: {out}" in result.stdout
    with np.load(out) as found:
        assert sorted(found) == [
            "pos", "seq", "sequence_digests", "session", "target_logprob", "top_ids", "top_logprobs",
        ]  # fmt: skip
        assert found["pos"].tolist() == [*range(8), 0, 0, 1, 2]
        assert {name: found[name].dtype for name in found if name not in ("session", "sequence_digests")} == {
            "seq": np.int32,
            "pos": np.int32,
            "target_logprob": np.float32,
            "top_ids": np.int32,
            "top_logprobs": np.float32,
        }
        assert found["top_ids"].shape == (12, TOP)
        assert np.isnan(found["target_logprob"]).tolist() == (found["pos"] == 0).tolist()


def test_a_run_compared_with_itself(strata, logpos):
    _, a = logpos("a.npz")
    result, b = logpos("b.npz", "--at", a, "--window", 4)
    assert result.exit_code == 0, result.output
    assert load_record(b).at_logprobs is not None
    result = strata("eval", "kl", a, b)
    assert result.output.splitlines()[-1].split() == ["all", "12", "0.000000", "0.0000", "100.00%"]
    found = json.loads(strata("eval", "kl", a, b, "--json").output)
    assert [bucket["name"] for bucket in found["buckets"]] == ["0-7", "all"]
    assert found["buckets"][-1] == {"name": "all", "positions": 12, "mean_kl": 0.0, "largest_kl": 0.0, "top1": 1.0}


def test_texts_are_tokenised_and_cut_to_the_context(strata, folder, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("hello " * 30)
    out = tmp_path / "t.npz"
    result = strata("eval", "logpos", "--model", folder, "--text", text, "--out", out, "--engine-context", 16)
    assert result.exit_code == 0, result.output
    assert load_record(out).pos.max() == 15


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "not a JSON list of lists of token ids"),
        ("[[1, 2], 3]", "not a JSON list of lists of token ids"),
        ("[[1, true]]", "entry 1 of list 0 is true"),
        ("[[1, 2.5]]", "entry 1 of list 0 is 2.5"),
        ("[[1,", "not a JSON list of lists of token ids"),
        ("[[99999999]]", "must be an id from 0 to"),
    ],
)
def test_wrong_tokens_are_one_clear_error(strata, folder, tmp_path, content, message):
    path = tmp_path / "tokens.json"
    path.write_text(content)
    result = strata("eval", "logpos", "--model", folder, "--tokens", path, "--out", tmp_path / "x.npz")
    assert result.exit_code == 2
    assert message in result.stderr
    assert not (tmp_path / "x.npz").exists()


def test_options_that_do_not_fit(strata, folder, tokens, tmp_path):
    out = tmp_path / "x.npz"
    result = strata("eval", "logpos", "--model", folder, "--out", out)
    assert (result.exit_code, "either --tokens or --text" in result.stderr) == (2, True)
    result = strata("eval", "logpos", "--model", folder, "--tokens", tokens, "--out", out, "--window", 9)
    assert (result.exit_code, "1<=x<=8" in result.stderr) == (2, True)
    result = strata("eval", "kl", tokens, tokens)
    assert (result.exit_code, "not an .npz file" in result.stderr) == (2, True)
    result = strata("eval", "pos")
    assert (result.exit_code, "Did you mean 'logpos'?" in result.stderr) == (2, True)


def test_floor_and_scale_stand_beside_a_comparison(strata, logpos):
    _, a = logpos("a.npz")
    _, again = logpos("again.npz", "--at", a)
    _, b = logpos("b.npz", "--at", a, "--route-tail-skip", 1)
    result = strata("eval", "kl", a, b, "--floor", again, "--scale", b)
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    session, other = (load_record(path).session for path in (a, b))
    assert lines[:4] == [
        f"A ({a}): session {session.fingerprint}",
        f"floor ({again}): session {session.fingerprint}",
        f"scale ({b}): session {other.fingerprint}: route.tail_skip=1, not 0",
        f"B ({b}): session {other.fingerprint}: route.tail_skip=1, not 0",
    ]
    assert [line.split() for line in lines[-3:]] == [
        [name, "0.00e+00", "0.00e+00", "0.00e+00", "100.00%"] for name in ("floor", "scale", "B")
    ]
    found = json.loads(strata("eval", "kl", a, b, "--floor", again, "--json").output)
    assert found["floor"]["buckets"][-1]["positions"] == 12
    assert found["scale"] is None
    assert found["sessions"] == {"A": session.fingerprint, "floor": session.fingerprint, "B": other.fingerprint}


def test_a_record_of_other_tokens_is_one_clear_error(strata, logpos, tokens):
    _, a = logpos("a.npz")
    tokens.write_text(json.dumps([[3, 1, 4, 1, 5, 9, 2, 7], [5], [3, 5, 8]]))
    _, b = logpos("b.npz")
    result = strata("eval", "kl", a, b)
    assert result.exit_code == 2
    assert f"{b}: the two files are of other texts: sequence 0 has other tokens" in result.stderr
    result = strata("eval", "kl", a, a, "--floor", b)
    assert (result.exit_code, f"{b}: the two files" in result.stderr) == (2, True)
    result, _ = logpos("c.npz", "--at", a)
    assert result.exit_code == 2
    assert "--at is of another text: its sequence 0 has other tokens than what is read" in result.stderr


def test_the_session_is_shown_to_programs(strata, folder):
    told = []
    for knobs in ((), ("--pool-pin", "off"), ("--route-tail-skip", 1)):
        strata.model.closed = False
        result = strata("generate", "--model", folder, "--prompt", "abc", "--max-tokens", 2, "--json", *knobs)
        told.append(json.loads(result.stdout)["session"])
        strata.model.closed = False
        session = json.loads(strata("info", "--model", folder, "--json", *knobs).stdout)["session"]
        assert session["fingerprint"] == told[-1]
        assert session["knobs"] == {"route.tail_skip": "1" if "--route-tail-skip" in knobs else "0"}
    assert told[0] == told[1] != told[2]
