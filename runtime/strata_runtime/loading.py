"""What is settled before a model is loaded: where it is, the kernels package, the settings."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.gguf.reader import is_gguf
from strata_runtime.knobs import Resolution, resolve, startup_lines
from strata_runtime.provider import Provider

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


Report = Callable[[str], None]
"""Takes one start-up line."""

LOG = logging.getLogger("strata_runtime")
"""Takes start-up lines when nothing else does."""


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
    flags: Mapping[str, str],
    python: Mapping[str, object],
    report: Report | None,
) -> tuple[Resolution, Settings]:
    """Settle every knob, say so, and return (how it came about, the provider's `Settings`).

    Without `report` the lines go to the logger `strata_runtime`, those of values that were not taken as warnings.
    """
    resolution = resolve(provider.knobs, environ=environ, command_line=flags, python=python)
    target = f"{provider.backend} {provider.arch}"
    first, *rest = startup_lines(resolution, version=__version__, target=target, package=provider.name)
    (report or LOG.info)(first)
    for line in rest:
        (report or LOG.warning)(line)
    return resolution, provider.settings_type.from_values(resolution.values)
