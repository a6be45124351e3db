"""The file that a conversion writes: complete under its name, or not there."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.gguf.reader import is_gguf
from strata_runtime.sizes import size
from strata_runtime.whole_file import check_target, require_file

_SUFFIX = ".partial"


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


@contextlib.contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Lend the name `out` + `.partial`, to be written in the body, and rename it to `out` at its end.

    After an exception it is removed and `out` is as before; what a killed process left is overwritten by the next one.
    Raises `UserError` when it cannot be written, or another process is at it.
    """
    partial = out.with_name(out.name + _SUFFIX)
    try:
        if partial.exists():
            require_file(partial)
        with partial.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                yield partial
                os.fsync(held.fileno())
                partial.replace(out)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except BlockingIOError:
        raise UserError(f"{partial}: another conversion is writing it") from None
    except OSError as problem:
        raise UserError(f"{out}: cannot be written: {problem.strerror}; nothing was left there") from None
