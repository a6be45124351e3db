"""What a command that measures writes: its table, JSON, and pictures."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from strata_runtime.bench.plot import pictures
from strata_runtime.errors import UserError
from strata_runtime.whole_file import STDOUT, check_target, replacing

_Function = TypeVar("_Function", bound=Callable[..., object])


def output_options(command: _Function) -> _Function:
    """Add `--json`, `--plot` and `--quiet` to a command, which takes them as `json_file`, `plot` and `quiet`."""
    json_file = click.option(
        "--json", "json_file", metavar="FILE", help="Write one JSON object; - is stdout, in place of tables."
    )
    plot = click.option(
        "--plot",
        metavar="FILE",
        help="Draw into a .png, .svg or .pdf file; without such an end, FILE.png and FILE.svg.",
    )
    quiet = click.option("--quiet", is_flag=True, help="Write nothing to stderr but errors.")
    return json_file(plot(quiet(command)))


def check_outputs(json_file: str | None, plot: str | None) -> None:
    """Raise `UserError` when a file cannot be written, before minutes are spent on what it shall hold."""
    if json_file not in (None, STDOUT):
        if not json_file:
            raise UserError("--json '': name a file to write")
        check_target(Path(json_file), "--json")
    if plot is not None:
        if plot == STDOUT:
            raise UserError(f"--plot {plot}: a picture is not for standard output; name a file to write")
        for path in pictures(plot):
            check_target(path, "--plot")


def write_outputs(
    found: Mapping[str, Any],
    lines: Iterable[str],
    json_file: str | None,
    plot: str | None,
    draw: Callable[[Path, str], object],
) -> None:
    """Write the table and the files that were asked for; JSON to stdout takes the table's place.

    draw: called with a file to write and the form of picture, `png`, `svg` or `pdf`.
    """
    text = json.dumps(found, indent=2)
    click.echo(text if json_file == STDOUT else "\n".join(lines))
    if json_file not in (None, STDOUT):
        with replacing(Path(json_file)) as partial:
            partial.write_text(text + "\n", encoding="utf-8")
    for path in () if plot is None else pictures(plot):
        with replacing(path) as partial:
            draw(partial, path.suffix.removeprefix("."))
