"""What a teacher-forced run leaves: log-probabilities at every position of some sequences, as an .npz file."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from strata_runtime.errors import UserError
from strata_runtime.session import Session, read_session
from strata_runtime.whole_file import check_target, replacing, require_file

TOP = 20

_ROUNDING = 1e-3  # by which a log-probability may exceed 0

_DTYPES: Mapping[str, type[np.generic]] = {
    "seq": np.int32,
    "pos": np.int32,
    "target_logprob": np.float32,
    "top_ids": np.int32,
    "top_logprobs": np.float32,
    "at_logprobs": np.float32,
    "sequence_digests": np.uint8,
}
_REQUIRED = tuple(_DTYPES)[:5]
_SESSION = "session"
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class LogposRecord:
    """One row per position, sequences one after the other.

    `seq` and `pos`: int32 [N]. `target_logprob`: float32 [N], the log-probability of the token at `pos` given those
    before it; NaN at position 0. `top_ids`, `top_logprobs`: int32 and float32 [N, TOP], the most probable tokens behind
    `pos`, best first, equal ones by id. `at_logprobs`: float32 [N, TOP], log-probabilities of the tokens that another
    record has at the top, or None. `sequence_digests`: uint8 [sequences, 32], of each one's token ids, and `session`:
    that of the engine; None in files of other tools.
    """

    seq: NDArray[np.int32]
    pos: NDArray[np.int32]
    target_logprob: NDArray[np.float32]
    top_ids: NDArray[np.int32]
    top_logprobs: NDArray[np.float32]
    at_logprobs: NDArray[np.float32] | None = None
    sequence_digests: NDArray[np.uint8] | None = None
    session: Session | None = None

    @property
    def positions(self) -> int:
        """Number of rows."""
        return len(self.seq)

    def save(self, path: Path) -> None:
        """Write the arrays under their names. Raises `UserError` when the file cannot be written."""
        check_target(path)
        arrays = {name: getattr(self, name) for name in _DTYPES}
        arrays[_SESSION] = None if self.session is None else np.array(self.session.as_text())
        with replacing(path) as partial, partial.open("wb") as file:
            np.savez(file, **{name: array for name, array in arrays.items() if array is not None})


def digests_of(sequences: Sequence[Sequence[int]]) -> NDArray[np.uint8]:
    """Return a digest of each sequence's token ids, uint8 [sequences, 32]."""
    digests = [hashlib.sha256(np.asarray(ids, "<i8").tobytes()).digest() for ids in sequences]
    return np.frombuffer(b"".join(digests), np.uint8).reshape(-1, _DIGEST_BYTES)


def differing_sequence(a: NDArray[np.uint8] | None, b: NDArray[np.uint8] | None) -> int | None:
    """Return the first sequence whose tokens differ, None where none does or one of the two has no digests."""
    if a is None or b is None:
        return None
    common = min(len(a), len(b))  # what one has more holds no positions
    differing = np.flatnonzero((a[:common] != b[:common]).any(axis=1))
    return int(differing[0]) if differing.size else None


def _check(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    missing = [name for name in _REQUIRED if name not in arrays]
    if missing:
        raise UserError(f"{path}: holds no {', '.join(missing)}: not a file of 'strata eval logpos'")
    count = len(arrays["seq"]) if arrays["seq"].ndim == 1 else -1
    one, top = (count,), (count, TOP)
    shapes = dict(zip(_DTYPES, (one, one, one, top, top, top), strict=False))
    if "sequence_digests" in arrays:
        rows = max((0, *arrays["sequence_digests"].shape[:1]))
        shapes["sequence_digests"] = (max(rows, int(arrays["seq"].max(initial=-1)) + 1), _DIGEST_BYTES)
    for name, dtype in _DTYPES.items():
        if name not in arrays:
            continue
        shape = shapes[name]
        if arrays[name].shape != shape or arrays[name].dtype != dtype:
            raise UserError(
                f"{path}: {name} is {arrays[name].dtype}{list(arrays[name].shape)}, "
                f"not {np.dtype(dtype)}{list(shape)}: not a file of 'strata eval logpos'"
            )
    for name in ("top_logprobs", "at_logprobs"):
        if name in arrays and not (np.isfinite(arrays[name]) & (arrays[name] <= _ROUNDING)).all():
            raise UserError(f"{path}: {name} holds values that are no log-probabilities: the file is damaged")
    ids = np.sort(arrays["top_ids"], axis=1)
    if (ids < 0).any() or (ids[:, 1:] == ids[:, :-1]).any():
        raise UserError(f"{path}: top_ids holds negative or repeated tokens: the file is damaged")


def load_record(path: Path) -> LogposRecord:
    """Read a record. Raises `UserError` for a file that is none."""
    try:
        require_file(path)
        opened = np.load(path, allow_pickle=False)
        if not isinstance(opened, NpzFile):  # an .npy file is one array
            raise UserError(f"{path}: not an .npz file")
        with opened as found:
            arrays = {name: found[name] for name in _DTYPES if name in found}
            told = found.get(_SESSION)
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror or problem}") from None
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile):
        raise UserError(f"{path}: not an .npz file") from None
    _check(path, arrays)
    return LogposRecord(**arrays, session=None if told is None else _session(path, told))


def _session(path: Path, stored: NDArray[Any]) -> Session:
    try:
        return read_session(str(stored))
    except ValueError:
        raise UserError(f"{path}: {_SESSION} cannot be read: the file is damaged") from None
