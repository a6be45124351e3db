"""What is settled before a model is loaded: its folder, the kernels package, the settings."""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from strata_runtime import __version__
from strata_runtime.errors import UserError
from strata_runtime.knobs import Resolution, resolve, startup_lines
from strata_runtime.provider import Provider

if TYPE_CHECKING:
    from strata_runtime._settings import Settings

MOST_DEFAULT_CONTEXT = 8192

Report = Callable[[str], None]
"""Takes one start-up line."""

_LOG = logging.getLogger("strata_runtime")


def model_folder(path: str | os.PathLike[str]) -> Path:
    """Return the folder of a model. Raises `UserError` when there is none."""
    if not os.fspath(path):
        raise UserError("the model's folder is empty: name the folder that holds config.json and the weights")
    folder = Path(path)
    if "\0" in str(folder):
        raise UserError(f"{str(folder)!r}: a path cannot hold a NUL character")
    try:
        is_folder = stat.S_ISDIR(folder.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(f"{folder}: no such folder") from None
    except OSError as problem:
        raise UserError(f"{folder}: cannot be opened: {problem.strerror}") from None
    if not is_folder:
        raise UserError(f"{folder}: a file; give the folder that holds config.json and the weights")
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
    (report or _LOG.info)(first)
    for line in rest:
        (report or _LOG.warning)(line)
    return resolution, provider.settings_type.from_values(resolution.values)


def context_length(wanted: int, most: int) -> int:
    """Return how many tokens the cache holds: `wanted`, or for 0 the model's `most` up to a sensible default.

    Raises `UserError` for more than the model's own maximum.
    """
    if wanted > most:
        raise UserError(f"engine.context is {wanted}, more than this model's own maximum of {most} tokens")
    return wanted or min(most, MOST_DEFAULT_CONTEXT)
