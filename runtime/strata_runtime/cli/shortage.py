"""Memory that the system does not give: one line instead of a traceback."""

from __future__ import annotations

import errno
import resource

from strata_runtime.sizes import size

# What libraries make of it when it is not a MemoryError.
_WORDS = (
    "std::bad_alloc",
    "can't allocate memory",
    "cannot allocate memory",
    "failed to map segment from shared object",
    "can't start new thread",
)


def is_shortage(problem: BaseException) -> bool:
    """Whether an error, or one that led to it, says that memory did not suffice."""
    if isinstance(problem, MemoryError) or (isinstance(problem, OSError) and problem.errno == errno.ENOMEM):
        return True
    if isinstance(problem, RuntimeError | ImportError | SystemError):
        text = str(problem).lower()
        if any(word in text for word in _WORDS):
            return True
    before = problem.__cause__ or problem.__context__
    return before is not None and is_shortage(before)


def shortage_line() -> str:
    """Say it, with the limit of this process where it has one."""
    limits = (resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA))
    limit = min((limit for limit in limits if limit != resource.RLIM_INFINITY), default=None)
    return "not enough memory" if limit is None else f"not enough memory (limit {size(limit)}: see ulimit -v and -d)"
