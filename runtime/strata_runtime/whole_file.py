"""Files that are read whole, from folders that nobody vouches for."""

from __future__ import annotations

import stat
from pathlib import Path

from strata_runtime.errors import UserError

BYTES_AT_MOST = 1 << 30


def require_file(path: Path) -> int:
    """Return the size in bytes of a file that can be opened without waiting. Raises `UserError`, and `OSError`.

    A pipe would wait for its writer, and some devices never end.
    """
    found = path.stat()
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise UserError(f"{path}: not a file but a pipe or a device")
    return found.st_size


def read_whole(path: Path) -> bytes:
    """Return the content of a file. Raises `UserError` when it cannot be read, is none, or is larger than 1 GiB."""
    try:
        if require_file(path) > BYTES_AT_MOST:
            raise UserError(f"{path}: more than {BYTES_AT_MOST >> 30} GiB: too large for what it should hold")
        return path.read_bytes()
    except OSError as problem:
        raise UserError(f"{path}: cannot be read: {problem.strerror}") from None
