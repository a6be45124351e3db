"""What is settled before a model is loaded: where it is, the kernels package, the settings."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from strata_runtime import __version__
from strata_runtime.checkpoint.network import read_network
from strata_runtime.checkpoint.source import open_checkpoint
from strata_runtime.errors import UserError
from strata_runtime.gguf.reader import is_gguf
from strata_runtime.knobs import Flags, Resolution, resolve, startup_line, startup_lines
from strata_runtime.provider import Provider

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


Report = Callable[[str], None]
"""Takes one start-up line."""

LOG = logging.getLogger("strata_runtime")
"""Takes start-up lines when nothing else does."""


LOGPOS_KNOB = "eval.logpos"
_UNWRITTEN = f"{LOGPOS_KNOB} is ignored here: 'strata generate' and 'strata eval logpos' write such a file"

_WHAT = "the folder that holds config.json and the weights, or a GGUF file"


def model_path(path: str | os.PathLike[str]) -> Path:
    """Return the folder or the GGUF file of a model. Raises `UserError` when there is none."""
    if not os.fspath(path):
        raise UserError(f"the model's path is empty: name {_WHAT}")
    folder = Path(path)
    if "\0" in str(folder):
        raise UserError(f"{str(folder)!r}: a path cannot hold a NUL character")
    try:
        is_model = stat.S_ISDIR(folder.stat().st_mode) or is_gguf(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder}: no such folder or file") from None
    except OSError as problem:
        raise UserError(f"{folder}: cannot be opened: {problem.strerror}") from None
    if not is_model:
        raise UserError(f"{folder}: a file that is no GGUF file; give {_WHAT}")
    return folder


def settle(
    provider: Provider,
    environ: Mapping[str, str],
    flags: Flags,
    python: Mapping[str, object],
    report: Report | None,
    *,
    writes_logpos: bool = False,
) -> tuple[Resolution, Settings]:
    """Settle every knob, say so, and return (how it came about, the provider's `Settings`).

    writes_logpos: whether the caller writes the file of `eval.logpos`; otherwise a line says that nobody does.
    Without `report` the lines go to the logger `strata_runtime`, those of values that were not taken as warnings.
    """
    resolution = resolve(provider.knobs, environ=environ, command_line=flags, python=python)
    target = f"{provider.backend} {provider.arch}"
    first, *rest = startup_lines(resolution, version=__version__, target=target, package=provider.name)
    (report or LOG.info)(first)
    for line in rest:
        (report or LOG.warning)(line)
    if resolution.values.get(LOGPOS_KNOB) is not None and not writes_logpos:
        say_notes([_UNWRITTEN], report)
    return resolution, provider.settings_type.from_values(resolution.values)


def say_notes(notes: Iterable[str], report: Report | None) -> None:
    """Say what else there is to say at the start, as lines like those of knobs; see `settle` for `report`."""
    for note in notes:
        (report or LOG.warning)(startup_line(note))


def own_context(path: Path, provider: Provider) -> int:
    """Return how many positions a model was made for, without loading it. Raises `UserError` as `Model.load` does."""
    return read_network(open_checkpoint(path, provider.families, provider.formats).config).context_length
