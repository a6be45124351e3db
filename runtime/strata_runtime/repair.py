"""Rebuilding a damaged kernels package in place, by the generator, where that is possible."""

from __future__ import annotations

import importlib.util
import logging
import shutil
import subprocess
import sys
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.manifest import build_command

_LOG = logging.getLogger("strata_runtime")
_SCRIPT = "from strata_gen.cli.main import main; main()"


def _target(folder: Path) -> tuple[Path, str, str] | None:
    """Return output folder, backend and arch of a package at `<out>/<backend>/<arch>/package/<name>`."""
    if len(folder.parts) < 5 or folder.parent.name != "package":
        return None
    arch = folder.parents[1]
    return arch.parents[1], arch.parent.name, arch.name


def rebuild(folder: Path, why: str) -> bool:
    """Move the package aside and build it again.

    Returns False when it is not in a build folder, or there is no generator. Raises `UserError` when the build fails;
    its own messages go to stderr.
    """
    target = _target(folder)
    if target is None or importlib.util.find_spec("strata_gen") is None:
        return False
    out, backend, arch = target
    aside = folder.with_name(f"{folder.name}.damaged")
    _LOG.warning("%s: rebuilding the package; the damaged one is kept as %s", why, aside)
    _move_aside(folder, aside)
    arguments = ["build", "--target", backend, arch, "--out", str(out)]
    if subprocess.run([sys.executable, "-c", _SCRIPT, *arguments], stdout=sys.stderr, check=False).returncode:
        raise UserError(f"{why}, and rebuilding it failed: see above, then run: {build_command(backend, arch)}")
    return True


def _move_aside(folder: Path, aside: Path) -> None:
    shutil.rmtree(aside, ignore_errors=True)
    try:
        folder.rename(aside)
    except FileNotFoundError:
        return  # another process has just done it
    except OSError as problem:
        raise UserError(f"{folder}: damaged, and cannot be moved aside: {problem.strerror}") from None
