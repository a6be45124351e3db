"""The file that a conversion writes: complete under its name, or not there."""

from __future__ import annotations

import shutil
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.gguf.reader import is_gguf
from strata_runtime.sizes import size
from strata_runtime.whole_file import check_target


def check_destination(out: Path, *, force: bool) -> None:
    """Raise `UserError` when `out` cannot be written, or is there already. `force` replaces a GGUF file."""
    check_target(out)
    try:
        if not out.exists():
            return
        if not force:
            raise UserError(f"{out}: exists already; --force replaces it")
        if not is_gguf(out):
            raise UserError(f"{out}: is no GGUF file, and only such are replaced: name another file")
    except OSError as problem:
        raise UserError(f"{out}: cannot be written: {problem.strerror}") from None


def check_space(out: Path, needed: int) -> None:
    """Raise `UserError` when the disk has less than `needed` bytes for `out`: what is there stays until the end."""
    free = shutil.disk_usage(out.parent).free
    if free < needed:
        raise UserError(f"{out.parent}: has {size(free)} free, but the file takes {size(needed)}")
