"""OS file locks: they end with the process that holds them, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from strata_gen.errors import GeneratorError
from strata_gen.progress import Reporter


@contextmanager
def held(path: Path, what: str, reporter: Reporter) -> Iterator[bool]:
    """Hold the lock file `path` for the body, which gets whether it had to wait for another process.

    While another process holds it, says so; `what` names what that process is doing. Raises `GeneratorError` when
    the lock file cannot be made.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path)
        waited = not _try(lock)
        if waited:
            reporter.say(f"another process is {what}: waiting for it")
            with reporter.step(lambda: f"waiting for the process that is {what}"):
                lock.acquire()
    except OSError as problem:
        raise GeneratorError(f"cannot lock: {problem.strerror}", where=str(path)) from problem
    try:
        yield waited
    finally:
        lock.release()


def _try(lock: FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        return False
    return True
