"""Running CMake and Ninja: where they are, in what environment, and so that they end with us."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from strata_gen.errors import GeneratorError

_DEVIATE = (
    *("CMAKE_", "CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "CXX", "LDFLAGS", "NINJA_STATUS"),
    *("NVCC_", "CUDACXX", "CUDAFLAGS", "CUDAARCHS", "CUDAHOSTCXX"),
    *("HIPCXX", "HIPFLAGS", "CCC_", "CLANG_"),
)


def _version_of(command: Path) -> tuple[int, ...]:
    try:
        done = subprocess.run([command, "--version"], capture_output=True, text=True, timeout=60, check=False)
    except OSError:
        return ()
    match = re.search(r"(\d+)\.(\d+)", done.stdout)
    return tuple(int(part) for part in match.groups()) if match and done.returncode == 0 else ()


def setting(environ: Mapping[str, str], name: str) -> str | None:
    """Return an environment variable; one that is empty or blank counts as unset."""
    return environ.get(name, "").strip() or None


def find_tool(name: str, minimum: tuple[int, ...] = ()) -> Path:
    """Return the command `name` (cmake or ninja): the one on PATH, else the one in its Python package."""
    candidates = [shutil.which(name)]
    with contextlib.suppress(ImportError):
        package = importlib.import_module(name)
        folders = (getattr(package, attribute, None) for attribute in ("CMAKE_BIN_DIR", "BIN_DIR"))
        candidates += [shutil.which(name, path=str(folder)) for folder in folders if folder]
    for candidate in filter(None, candidates):
        if not minimum or _version_of(Path(candidate)) >= minimum:
            return Path(candidate)
    wanted = f"{name}>={'.'.join(map(str, minimum))}" if minimum else name
    raise GeneratorError(f"there is no {wanted}", mend=f"pip install '{wanted}'")


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of build tools: without variables that change code behind the key's back."""
    kept = {name: value for name, value in environ.items() if not name.startswith(_DEVIATE)}
    return {**kept, "LC_ALL": "C", "NINJA_STATUS": "[%f/%t] ", "_STRATA_GEN_RUNNING": "1"}


def _die_with_parent() -> Callable[[], None] | None:
    """Return a hook for the child that has it interrupted when this process is killed (Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    parent_death_signal = 1
    return lambda: prctl(parent_death_signal, signal.SIGTERM)


@contextlib.contextmanager
def running(command: Sequence[str], cwd: Path, environ: Mapping[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Start a command with its output on one pipe; it is ended when the body raises or this process is killed."""
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=_die_with_parent(),  # noqa: PLW1509 - calls one system call, takes no lock
    )
    try:
        yield process
    except BaseException:
        process.terminate()
        raise
    finally:
        process.wait()
