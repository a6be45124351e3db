"""Records of log-probabilities: what is in them, and what two of them say about each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.evaluation.divergence import compare, kl_per_position
from strata_runtime.evaluation.logpos import measure, top_of
from strata_runtime.evaluation.record import TOP, load_record
from strata_runtime.sampling import log_softmax
from strata_runtime.session import Session

VOCAB = 50


class Table:
    """A reader whose distribution behind a token depends on the token alone; remembers the windows it was asked for."""

    def __init__(self, seed: int) -> None:
        self.logits = np.random.default_rng(seed).standard_normal((VOCAB, VOCAB), np.float32) * 3
        self.windows: list[int] = []

    def logprob_rows(self, ids: Sequence[int], window: int) -> Iterator[NDArray[np.float32]]:
        for start in range(0, len(ids), window):
            part = list(ids[start : start + window])
            self.windows.append(len(part))
            yield log_softmax(self.logits[part])


SEQUENCES = [[3, 1, 4, 1, 5, 9, 2], [6], [], [5, 3, 5]]


def test_a_record_holds_every_position_in_order() -> None:
    table = Table(0)
    record = measure(table, SEQUENCES, 3)
    assert table.windows == [3, 3, 1, 1, 3]
    assert record.seq.tolist() == [0] * 7 + [1] + [3] * 3
    assert record.pos.tolist() == [*range(7), 0, 0, 1, 2]
    rows = log_softmax(table.logits[[token for ids in SEQUENCES for token in ids]])
    assert np.isnan(record.target_logprob[record.pos == 0]).all()
    for row in np.flatnonzero(record.pos):
        token = SEQUENCES[record.seq[row]][record.pos[row]]
        assert record.target_logprob[row] == rows[row - 1, token]
    assert (record.top_logprobs == -np.sort(-rows, axis=1)[:, :TOP]).all()
    assert (np.take_along_axis(rows, record.top_ids.astype(np.int64), 1) == record.top_logprobs).all()


def test_equal_logits_come_by_id() -> None:
    values = np.zeros((2, 60), np.float32)
    values[1, 30:] = 1
    assert top_of(values).tolist() == [list(range(20)), list(range(30, 50))]


def test_a_vocabulary_smaller_than_the_top_is_refused() -> None:
    with pytest.raises(UserError, match="19 tokens has no top 20"):
        top_of(np.zeros((1, 19), np.float32))


def test_at_takes_this_runs_values_of_the_other_runs_top() -> None:
    a = measure(Table(0), SEQUENCES, 1)
    other = Table(1)
    b = measure(other, SEQUENCES, 8, at=a)
    rows = log_softmax(other.logits[[token for ids in SEQUENCES for token in ids]])
    assert b.at_logprobs is not None
    assert (b.at_logprobs == np.take_along_axis(rows, a.top_ids.astype(np.int64), 1)).all()
    with pytest.raises(UserError, match="11 positions of other sequences than the 7"):
        measure(other, SEQUENCES[:1], 8, at=a)


def test_the_divergence_is_the_sum_over_as_top_tokens() -> None:
    a = measure(Table(0), SEQUENCES, 1)
    b = measure(Table(1), SEQUENCES, 1, at=a)
    assert b.at_logprobs is not None
    expected = [
        sum(np.exp(float(la)) * (float(la) - float(lb)) for la, lb in zip(p, q, strict=True))
        for p, q in zip(a.top_logprobs, b.at_logprobs, strict=True)
    ]
    np.testing.assert_allclose(kl_per_position(a, b), expected, rtol=1e-12)
    found = compare(a, b)
    assert found.guessed == 0
    assert found.overall.mean_kl == pytest.approx(np.mean(expected))
    assert found.overall.largest_kl == pytest.approx(np.max(expected))
    assert found.overall.top1 == np.mean(a.top_ids[:, 0] == b.top_ids[:, 0])


def test_values_at_the_top_of_a_third_record_are_no_comparison() -> None:
    a, third = measure(Table(0), SEQUENCES, 1), measure(Table(2), SEQUENCES, 1)
    b = measure(Table(1), SEQUENCES, 1, at=third)
    assert compare(third, b).guessed == 0
    with pytest.raises(UserError, match="top tokens of another record than A: write B with --at A"):
        compare(a, b)


def test_a_run_is_at_no_distance_from_itself() -> None:
    a = measure(Table(0), SEQUENCES, 1)
    found = compare(a, a)
    assert (found.overall.mean_kl, found.overall.largest_kl, found.overall.top1, found.guessed) == (0, 0, 1, 0)


def test_without_at_the_divergence_is_a_lower_bound_and_says_so() -> None:
    a, table = measure(Table(0), SEQUENCES, 1), Table(1)
    exact, known = measure(table, SEQUENCES, 1, at=a), measure(table, SEQUENCES, 1)
    assert compare(a, known).guessed > 0
    assert (kl_per_position(a, known) <= kl_per_position(a, exact)).all()


def test_ranges_of_positions_are_kept_apart() -> None:
    ids = [int(token) for token in np.random.default_rng(2).integers(0, VOCAB, 700)]
    a = measure(Table(0), [ids], 8)
    found = compare(a, measure(Table(1), [ids], 8, at=a))
    assert [(bucket.name, bucket.positions) for bucket in found.buckets] == [
        ("0-7", 8),
        ("8-63", 56),
        ("64-639", 576),
        ("640+", 60),
        ("all", 700),
    ]


def test_records_of_other_texts_are_not_compared() -> None:
    a = measure(Table(0), SEQUENCES, 1)
    with pytest.raises(UserError, match="other positions: 11 and 7 rows"):
        compare(a, measure(Table(0), SEQUENCES[:1], 1))
    with pytest.raises(UserError, match="no positions"):
        compare(measure(Table(0), [], 1), measure(Table(0), [], 1))


def test_records_of_other_tokens_at_the_same_positions_are_not_compared() -> None:
    a = measure(Table(0), SEQUENCES, 1)
    other = [*SEQUENCES[:3], [5, 3, 6]]
    with pytest.raises(UserError, match="the two files are of other texts: sequence 3 has other tokens"):
        compare(a, measure(Table(0), other, 1))
    with pytest.raises(UserError, match="--at is of another text: its sequence 3 has other tokens"):
        measure(Table(0), other, 1, at=a)


def test_a_record_of_another_tool_has_no_digests_and_is_compared(tmp_path: Path) -> None:
    a = measure(Table(0), SEQUENCES, 1)
    arrays = {name: getattr(a, name) for name in ("seq", "pos", "target_logprob", "top_ids", "top_logprobs")}
    np.savez(tmp_path / "theirs.npz", **arrays)
    theirs = load_record(tmp_path / "theirs.npz")
    assert (theirs.sequence_digests, theirs.session) == (None, None)
    assert compare(theirs, a).overall.mean_kl == compare(a, theirs).overall.mean_kl == 0
    assert measure(Table(0), SEQUENCES, 1, at=theirs).at_logprobs is not None


@pytest.mark.parametrize(
    "digests", [np.zeros((3, 32), np.uint8), np.zeros((4, 31), np.uint8), np.zeros((4, 32), np.int8), np.uint8(4)]
)
def test_digests_that_are_none_are_refused(tmp_path: Path, digests: NDArray[np.uint8]) -> None:
    replace(measure(Table(0), SEQUENCES, 1), sequence_digests=digests).save(tmp_path / "x.npz")
    with pytest.raises(UserError, match=r"x\.npz: sequence_digests is .*, not uint8\[4, 32\]"):
        load_record(tmp_path / "x.npz")


SESSION = Session("model", "package", 0, (("verify.ecap", "12"),))


def test_a_session_comes_back_with_its_record(tmp_path: Path) -> None:
    measure(Table(0), SEQUENCES, 1, session=SESSION).save(tmp_path / "x.npz")
    assert load_record(tmp_path / "x.npz").session == SESSION


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", "7", '{"model": 1, "package": "", "arranged_bytes": 0, "knobs": {}}', "[" * 100_000],
)
def test_a_session_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    arrays = {name: getattr(measure(Table(0), SEQUENCES, 1), name) for name in ("seq", "pos", "target_logprob")}
    record = measure(Table(0), SEQUENCES, 1)
    arrays |= {"top_ids": record.top_ids, "top_logprobs": record.top_logprobs, "session": np.array(text)}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(UserError, match=r"x\.npz: session cannot be read: the file is damaged"):
        load_record(tmp_path / "x.npz")


def test_a_record_comes_back_from_its_file(tmp_path: Path) -> None:
    a = measure(Table(0), SEQUENCES, 1)
    for record in (a, measure(Table(1), SEQUENCES, 1, at=a)):
        path = tmp_path / "run.npz"
        record.save(path)
        found = load_record(path)
        assert (found.at_logprobs is None) == (record.at_logprobs is None)
        assert (found.top_ids == record.top_ids).all()
        assert found.target_logprob.tobytes() == record.target_logprob.tobytes()


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off", b"\x93NUMPY", b"text"])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.npz"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"x\.npz: not an \.npz file"):
        load_record(path)


def test_an_array_alone_is_no_record(tmp_path: Path) -> None:
    with (tmp_path / "x.npz").open("wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(UserError, match=r"x\.npz: not an \.npz file"):
        load_record(tmp_path / "x.npz")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 3e38, 0.5])
def test_values_that_are_no_log_probabilities_are_refused(tmp_path: Path, value: float) -> None:
    record = measure(Table(0), SEQUENCES, 1)
    record.top_logprobs[3, 2] = value
    record.save(tmp_path / "x.npz")
    with pytest.raises(UserError, match="top_logprobs holds values that are no log-probabilities"):
        load_record(tmp_path / "x.npz")


@pytest.mark.parametrize("token", [-1, 0])
def test_tokens_that_no_run_has_at_its_top_are_refused(tmp_path: Path, token: int) -> None:
    record = measure(Table(0), SEQUENCES, 1)
    record.top_ids[3, :2] = (token, record.top_ids[3, 0]) if token < 0 else record.top_ids[3, 0]
    record.save(tmp_path / "x.npz")
    with pytest.raises(UserError, match="negative or repeated tokens"):
        load_record(tmp_path / "x.npz")


def test_the_top_of_a_larger_vocabulary_is_refused() -> None:
    a = measure(Table(0), SEQUENCES, 1)
    a.top_ids[2, 5] = VOCAB
    with pytest.raises(UserError, match=f"a larger vocabulary than this model's {VOCAB}"):
        measure(Table(1), SEQUENCES, 1, at=a)


def test_records_with_other_arrays_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    np.savez(path, seq=np.zeros(1, np.int32))
    with pytest.raises(UserError, match="holds no pos, target_logprob, top_ids, top_logprobs"):
        load_record(path)
    record = measure(Table(0), SEQUENCES, 1)
    replace(record, pos=record.pos[:-1]).save(path)
    with pytest.raises(UserError, match=r"pos is int32\[10\], not int32\[11\]"):
        load_record(path)
    with pytest.raises(UserError, match="cannot be read"):
        load_record(tmp_path / "none.npz")
    with pytest.raises(UserError, match="there is no folder"):
        record.save(tmp_path / "no" / "folder.npz")
