"""The texts that a teacher-forced run reads: lists of token ids, or files that are tokenised."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from strata_runtime.errors import UserError
from strata_runtime.whole_file import read_whole

Sequences = list[list[int]]


class Encoder(Protocol):
    """What an engine offers: text to token ids, and how many of them it can hold."""

    @property
    def context(self) -> int: ...  # noqa: D102

    def encode(self, prompt: str) -> Sequence[int]: ...  # noqa: D102


def read_tokens(path: Path) -> Sequences:
    """Read a JSON list of lists of token ids. Raises `UserError` for anything else."""
    what = f"{path}: not a JSON list of lists of token ids"
    try:
        found = json.loads(read_whole(path).decode("utf-8"))
    except (ValueError, RecursionError):
        raise UserError(what) from None
    if not isinstance(found, list) or not all(isinstance(ids, list) for ids in found):
        raise UserError(what)
    for index, ids in enumerate(found):
        for at, token in enumerate(ids):
            if isinstance(token, bool) or not isinstance(token, int):
                raise UserError(f"{what}: entry {at} of list {index} is {json.dumps(token)[:40]}")
    if not any(found):
        raise UserError(f"{path}: holds no tokens")
    return found


def read_texts(files: Sequence[Path], encoder: Encoder) -> Sequences:
    """Tokenise files, each cut into pieces of the encoder's context. Raises `UserError` for one that is no text."""
    pieces = []
    for path in files:
        try:
            text = read_whole(path).decode("utf-8")
        except UnicodeDecodeError as problem:
            raise UserError(f"{path}: not UTF-8 text at byte {problem.start}") from None
        ids = list(encoder.encode(text)) if text else []
        pieces += [ids[start : start + encoder.context] for start in range(0, len(ids), encoder.context)]
    if not pieces:
        raise UserError(f"{' and '.join(map(str, files))}: no text")
    return pieces
