"""The prompt of a command, from its arguments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import BinaryIO

import click

from strata_runtime.errors import UserError
from strata_runtime.sizes import size
from strata_runtime.whole_file import require_file

STDIN = "-"
PROMPT_AT_MOST = 1 << 28  # bytes; a device such as /dev/zero never ends


def _decode(data: bytes, where: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise UserError(f"{where}: not UTF-8 text at byte {problem.start}; convert it first") from None
    if "\0" in text:
        raise UserError(
            f"{where}: holds NUL characters at {text.index(chr(0))}: a binary or UTF-16 file, not UTF-8 text"
        )
    return text


def _read_file(name: str) -> str:
    if name == STDIN:
        return _decode(_read(sys.stdin.buffer, "standard input"), "standard input")
    if not name:
        raise click.UsageError("--prompt-file is empty: name a file.")
    try:
        _require_file(Path(name))
        with Path(name).open("rb") as file:
            return _decode(_read(file, name), name)
    except ValueError:
        raise UserError(f"{name!r}: not a path") from None
    except OSError as problem:
        raise UserError(f"{name}: cannot be read: {problem.strerror}") from None


def _require_file(path: Path) -> None:
    try:
        require_file(path)
    except UserError as problem:
        raise UserError(f"{problem}; - reads standard input") from None


def _read(file: BinaryIO, where: str) -> bytes:
    try:
        data = file.read(PROMPT_AT_MOST + 1)
    except OSError as problem:
        raise UserError(f"{where}: cannot be read: {problem.strerror}") from None
    if len(data) > PROMPT_AT_MOST:
        raise UserError(f"{where}: more than {size(PROMPT_AT_MOST)}: longer than any context")
    return data


def _read_ids(text: str) -> list[int]:
    words = [word.strip() for word in text.split(",")]
    for word in words:
        # int() alone would take underscores and digits of every script.
        if not (word.isascii() and word.isdigit() and len(word) < 20):
            raise click.UsageError(f"--prompt-ids takes token ids such as 1,2,3, not {word!r:.40}.")
    return list(map(int, words))


def read_prompt(text: str | None, file: str | None, ids: str | None) -> str | list[int]:
    """Return the prompt out of `--prompt`, `--prompt-file` and `--prompt-ids`; `-` in the first two is standard input.

    A file's text is taken as it is, with its last line end; only a byte order mark is dropped. Raises `UserError` for
    a file that is no UTF-8 text, and `click.UsageError` unless exactly one of the three is given.
    """
    if sum(given is not None for given in (text, file, ids)) > 1:
        raise click.UsageError("Give one of --prompt, --prompt-file and --prompt-ids, not several.")
    if ids is not None:
        return _read_ids(ids)
    if file is not None:
        return _read_file(file)
    if text is None:
        raise click.UsageError("Give a prompt: --prompt TEXT, --prompt-file FILE, or --prompt - for standard input.")
    return _read_file(STDIN) if text == STDIN else text
