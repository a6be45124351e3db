"""The prompt of a command, from its arguments."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from strata_runtime.errors import UserError

STDIN = "-"


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
        return _decode(sys.stdin.buffer.read(), "standard input")
    try:
        return _decode(Path(name).read_bytes(), name)
    except ValueError:
        raise UserError(f"{name!r}: not a path") from None
    except OSError as problem:
        raise UserError(f"{name}: cannot be read: {problem.strerror}") from None


def read_prompt(text: str | None, file: str | None) -> str:
    """Return the prompt out of `--prompt` and `--prompt-file`; `-` in either is standard input.

    A file's text is taken as it is, with its last line end; only a byte order mark is dropped. Raises `UserError` for
    a file that is no UTF-8 text, and `click.UsageError` unless exactly one of the two is given.
    """
    if text is not None and file is not None:
        raise click.UsageError("Give --prompt or --prompt-file, not both.")
    if file is not None:
        return _read_file(file)
    if text is None:
        raise click.UsageError("Give a prompt: --prompt TEXT, --prompt-file FILE, or --prompt - for standard input.")
    return _read_file(STDIN) if text == STDIN else text
