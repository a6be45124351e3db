"""Files that a command writes besides its table: JSON, and pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from strata_runtime.bench.plot import pictures
from strata_runtime.errors import UserError

STDOUT = "-"


def check_outputs(json_file: str | None, plot: str | None) -> None:
    """Raise `UserError` when a file cannot be written, before minutes are spent on what it shall hold."""
    if json_file not in (None, STDOUT):
        _check_target("--json", json_file)
    if plot is not None:
        for path in pictures(plot):
            _check_target("--plot", str(path))


def write_outputs(
    found: Mapping[str, Any],
    lines: Iterable[str],
    json_file: str | None,
    plot: str | None,
    draw: Callable[[Path], object],
) -> None:
    """Write the table and the files that were asked for; JSON to stdout takes the table's place."""
    text = json.dumps(found, indent=2)
    click.echo(text if json_file == STDOUT else "\n".join(lines))
    if json_file not in (None, STDOUT):
        _save(Path(json_file), lambda path: path.write_text(text + "\n", encoding="utf-8"))
    if plot is not None:
        for path in pictures(plot):
            _save(path, draw)


def _check_target(option: str, name: str) -> None:
    path = Path(name)
    try:
        if not name or path.is_dir():
            raise UserError(f"{option} {name!r}: name a file to write")
        folder = path.absolute().parent
        if not folder.is_dir():
            raise UserError(f"{option} {name}: there is no folder {folder}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise UserError(f"{option} {name}: no permission to write there")
    except OSError as problem:
        raise UserError(f"{option} {name:.100}: no file can have this name: {problem.strerror}") from None


def _save(path: Path, write: Callable[[Path], object]) -> None:
    try:
        write(path)
    except OSError as problem:
        raise UserError(f"{path}: cannot be written: {problem.strerror}") from None
