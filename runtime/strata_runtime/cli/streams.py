"""Standard streams as a command finds them: closed, full, or of an encoding that lacks characters."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from collections.abc import Iterator

import click

EXIT_CANNOT_WRITE = 2
_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EFBIG, errno.EBADF)


def _open_missing() -> None:
    """Open the streams that were closed: reading and writing fail with EBADF, messages on stderr go nowhere."""
    for number, flags in ((0, os.O_WRONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, flags)  # takes the lowest free number, which is this one
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8", closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", encoding="utf-8", closefd=False)


@contextlib.contextmanager
def standard_streams() -> Iterator[None]:
    """Run a program's body with all three streams; output that cannot be written is one message and exit code 2."""
    _open_missing()
    if isinstance(sys.stdout, io.TextIOWrapper):
        # Models write any character; a terminal that lacks one must not end the text.
        sys.stdout.reconfigure(errors="replace")
    try:
        yield
    except OSError as problem:
        if problem.errno not in _CANNOT_WRITE or problem.filename is not None:
            raise
        with contextlib.suppress(OSError):
            click.echo(f"Error: the output cannot be written: {problem.strerror}", err=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is buffered must not fail again at the interpreter's end
        sys.exit(EXIT_CANNOT_WRITE)
