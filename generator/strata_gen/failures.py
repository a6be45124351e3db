"""A failed build as a user should see it: the first real error, what kind of failure it is, and what to do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path


class BuildFailure(Exception):
    """A compile, link or import check that failed: nothing is wrong with what the user typed; exit code 1.

    `line` is the first real error, `hint` what kind of failure it is, `rerun` the command that repeats just this,
    `log` the file with everything.
    """

    def __init__(self, line: str, *, hint: str, rerun: str, log: Path) -> None:
        self.line, self.hint, self.rerun, self.log = line, hint, rerun, log
        super().__init__(line)

    def render(self) -> str:
        """Return the lines to show."""
        lines = [f"build failed: {self.line}"]
        lines += [f"  hint:  {self.hint}"] if self.hint else []
        return "\n".join([*lines, f"  rerun: {self.rerun}", f"  log:   {self.log}"])


@dataclass(frozen=True, slots=True)
class _Kind:
    pattern: re.Pattern[str]
    hint: str


def _kind(pattern: str, hint: str) -> _Kind:
    return _Kind(re.compile(pattern), hint)


# In order: what stands first explains what stands after it.
_KINDS = (
    _kind(r"No space left on device|Disk quota exceeded", "the disk is full: free some space, or build with --out DIR"),
    _kind(r"File too large|File size limit exceeded|SIGXFSZ", "a limit on file sizes is in force: see 'ulimit -f'"),
    _kind(
        r"Killed signal terminated|\bKilled\b|out of memory|cannot allocate memory|Cannot allocate memory"
        r"|virtual memory exhausted|std::bad_alloc|\[code=137\]|SIGKILL",
        "the compiler ran out of memory: build with fewer jobs (--jobs 1), or give it more memory",
    ),
    _kind(r"fatal error: Python\.h", "Python's C headers are missing: Debian and Ubuntu 'apt-get install python3-dev'"),
    _kind(r"fatal error: pybind11/", "pybind11 is missing: pip install 'pybind11>=3,<4'"),
    _kind(r"fatal error: .*(No such file or directory|file not found)", "a header is missing"),
    _kind(
        r"internal compiler error|PLEASE submit a bug report",
        "the compiler crashed: try another release, with CXX=..., CUDACXX=... or HIPCXX=...",
    ),
    _kind(
        r"unrecognized command[- ]line option|unknown argument|unsupported option|not supported by this compiler",
        "this compiler does not know a flag that the target needs: set CXX to a newer gcc or clang",
    ),
    _kind(
        r"undefined reference|undefined symbol|multiple definition|ld returned|linker command failed|cannot find -l",
        "the objects do not link: a function is declared but defined nowhere, or defined twice",
    ),
    _kind(r"Illegal instruction|SIGILL", "this machine's CPU cannot run code for this target: build 'native' instead"),
    _kind(r"Permission denied|Read-only file system", "a folder cannot be written: build with --out DIR"),
)

_ERROR = re.compile(
    r"\b(fatal )?error\b:?|\bundefined reference\b|Killed|No space left|multiple definition", re.IGNORECASE
)
_SUMMARY = re.compile(
    r"^(CMake Error|-- |collect2|(amd)?clang[+\d-]*: error: .*command failed|ninja:|compilation terminated|make)"
    r"|ld returned \d"
)


def first_error(lines: Sequence[str]) -> str:
    """Return the first line that says what went wrong, not one that only says that something did."""
    said = [line.strip() for line in lines if line.strip()]
    real = [line for line in said if _ERROR.search(line) and not _SUMMARY.search(line)]
    # CMake says where in one line and what in the next.
    real += [f"{where} {what}" for where, what in pairwise(said) if where.startswith("CMake Error")]
    return (real or said[-1:] or ["no output"])[0]


def hint_for(lines: Sequence[str]) -> str:
    """Return what kind of failure some output shows; empty when it is a plain error in the code."""
    text = "\n".join(lines)
    return next((kind.hint for kind in _KINDS if kind.pattern.search(text)), "")


def with_origins(line: str, tree: Path, manifest: Mapping[str, Mapping[str, object]]) -> str:
    """Replace a path into the tree by the file that one would edit.

    A hand-written file is shown by its path in the project; a generated one keeps its path, and its template is named.
    """
    match = re.search(re.escape(str(tree)) + r"/([^\s:,()'\"]+)", line)
    if match is None:
        return line
    entry = manifest.get(match.group(1), {})
    if entry.get("origin"):
        return line.replace(match.group(0), str(entry["origin"]))
    return f"{line} [generated from templates/{entry['template']}]" if entry.get("template") else line
