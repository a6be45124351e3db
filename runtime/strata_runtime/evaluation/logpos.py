"""Teacher-forced log-probabilities at every position, read through windows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.evaluation.record import TOP, LogposRecord, differing_sequence, digests_of
from strata_runtime.progress import Progress
from strata_runtime.session import Session


class RowReader(Protocol):
    """What an engine offers: log-probabilities, float32 [n, vocab], of a text read in windows of at most `window`."""

    def logprob_rows(self, ids: Sequence[int], window: int) -> Iterator[NDArray[np.float32]]: ...  # noqa: D102


def top_of(logprobs: NDArray[np.float32], count: int = TOP) -> NDArray[np.int32]:
    """Return the ids of the `count` largest of [n, vocab], best first and equal ones by id: int32 [n, count]."""
    if logprobs.shape[1] < count:
        raise UserError(f"a vocabulary of {logprobs.shape[1]} tokens has no top {count}")
    # A stable sort of all would do; a partition first makes it affordable for large vocabularies.
    rough = np.partition(logprobs, -count, axis=1)[:, -count]
    result = np.empty((len(logprobs), count), np.int32)
    for row, (values, least) in enumerate(zip(logprobs, rough, strict=True)):
        candidates = np.flatnonzero(values >= least)
        order = np.lexsort((candidates, -values[candidates]))[:count]
        result[row] = candidates[order]
    return result


def measure(
    engine: RowReader,
    sequences: Sequence[Sequence[int]],
    window: int,
    at: LogposRecord | None = None,
    progress: Progress | None = None,
    session: Session | None = None,
) -> LogposRecord:
    """Read every sequence in windows cut at multiples of `window` from its start.

    `at`: a record of the same sequences; the result's `at_logprobs` are for its top tokens. `progress` is called with
    (done, total) positions. `session`: of the engine, to be kept with the record. Raises `UserError` when `at` is of
    other sequences.
    """
    total = sum(map(len, sequences))
    seq = np.repeat(np.arange(len(sequences), dtype=np.int32), [len(ids) for ids in sequences])
    pos = np.concatenate([np.arange(len(ids), dtype=np.int32) for ids in sequences] or [np.empty(0, np.int32)])
    if at is not None and not (np.array_equal(at.seq, seq) and np.array_equal(at.pos, pos)):
        raise UserError(f"--at holds {at.positions} positions of other sequences than the {total} that are read")
    target = np.full(total, np.nan, np.float32)
    top_ids, top_logprobs = np.empty((total, TOP), np.int32), np.empty((total, TOP), np.float32)
    at_logprobs = None if at is None else np.empty((total, TOP), np.float32)
    digests = digests_of(sequences)
    if at is not None and (differing := differing_sequence(at.sequence_digests, digests)) is not None:
        raise UserError(f"--at is of another text: its sequence {differing} has other tokens than what is read")
    row = 0
    for ids in sequences:
        end = row + len(ids)
        for logprobs in engine.logprob_rows(ids, window):
            rows = slice(row, row + len(logprobs))
            top_ids[rows] = top_of(logprobs)
            top_logprobs[rows] = np.take_along_axis(logprobs, top_ids[rows].astype(np.int64), 1)
            if at is not None and at_logprobs is not None:
                if at.top_ids[rows].max(initial=0) >= logprobs.shape[1]:
                    raise UserError(f"--at holds tokens of a larger vocabulary than this model's {logprobs.shape[1]}")
                at_logprobs[rows] = np.take_along_axis(logprobs, at.top_ids[rows].astype(np.int64), 1)
            known = min(len(logprobs), end - row - 1)
            following = np.asarray(ids[len(ids) - (end - row) + 1 :][:known], np.int64)
            target[row + 1 : row + 1 + known] = logprobs[np.arange(known), following]
            row += len(logprobs)
            if progress is not None:
                progress(row, total)
    return LogposRecord(seq, pos, target, top_ids, top_logprobs, at_logprobs, digests, session)
