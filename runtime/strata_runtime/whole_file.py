"""Files whose paths nobody vouches for: what can be opened without waiting, and what is read and written whole."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path

from strata_runtime.errors import UserError
from strata_runtime.sizes import size

BYTES_AT_MOST = 1 << 30
STDOUT = "-"
_SUFFIX = ".partial"


def require_file(path: Path) -> int:
    """Return the size in bytes of a file that can be opened without waiting. Raises `UserError`, and `OSError`.

    A pipe would wait for its writer, and some devices never end.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path}: not a file but a pipe or a device")
    return found.st_size


def check_target(path: Path, option: str = "") -> None:
    """Raise `UserError` when no file can be written at `path`, before minutes are spent on what it shall hold.

    A file that is there may be replaced. `option`: what named it, for messages.
    """
    named = f"{option} {path}".strip()
    if str(path) == STDOUT:
        raise UserError(f"{named}: standard output does not take this; name a file to write")
    if path == Path():  # what an empty text becomes
        raise UserError(f"{option or 'the path'} is empty: name a file to write")
    if "\0" in str(path):
        raise UserError(f"{named!r}: a path cannot hold a NUL character")
    try:
        if path.is_dir():
            raise UserError(f"{named}: a folder; name the file to write")
        final = _behind_links(path)
        folder = final.parent
        if not folder.is_dir():
            raise UserError(f"{named}: there is no folder {folder}")
        for place in (path, _partial(final)):
            if place.exists():
                require_file(place)
        if not all(os.access(place, os.W_OK) for place in (folder, path) if place.exists()):
            raise UserError(f"{named}: no permission to write there")
    except OSError as problem:
        raise UserError(f"{named:.100}: no file can have this name: {problem.strerror}") from None


def read_whole(path: Path) -> bytes:
    """Return the content of a file. Raises `UserError` when it cannot be read, is none, or is larger than 1 GiB."""
    try:
        if require_file(path) > BYTES_AT_MOST:
            raise UserError(f"{path}: more than {size(BYTES_AT_MOST)}: too large for what it should hold")
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror}") from None


def _behind_links(path: Path) -> Path:
    """Return the absolute path of the file itself."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path.absolute()


def _partial(final: Path) -> Path:
    return final.with_name(final.name + _SUFFIX)


@contextlib.contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Lend the name `out` + `.partial`, to be written in the body, and rename it to `out` at its end.

    After an exception it is removed and `out` is as before; what a killed process left is overwritten by the next one.
    Raises `UserError` when it cannot be written, or another process is at it.
    """
    try:
        final = _behind_links(out)
        partial = _partial(final)
        if partial.exists():
            require_file(partial)
        with partial.open("ab") as held:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                yield partial
                os.fsync(held.fileno())
                if final.exists():
                    shutil.copymode(final, partial)
                partial.replace(final)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
    except BlockingIOError:
        raise UserError(f"{partial}: another process is writing it") from None
    except OSError as problem:
        raise UserError(f"{out}: cannot be written: {problem.strerror}; nothing was left there") from None
