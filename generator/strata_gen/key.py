"""The build key: one hash over everything that decides what the compiled package does, and over nothing else."""

from __future__ import annotations

import hashlib
import json
import sysconfig
from collections.abc import Iterable, Mapping
from importlib import metadata

from strata_gen.emitter import GeneratedFile
from strata_gen.toolchain import Toolchain

# Raise it when the way a package is built changes without the tree showing it.
_RECIPE = "3"
# In the tree for use by hand or for tests, but not in the package.
_NOT_BUILT = ("tests/", "CMakePresets.json")


def python_abi() -> str:
    """Return the tag of extension modules for this interpreter, e.g. `cpython-311-x86_64-linux-gnu`."""
    return str(sysconfig.get_config_var("SOABI"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def key_parts(files: Iterable[GeneratedFile], toolchain: Toolchain) -> dict[str, str]:
    """Return what makes the key, by name: compilers, flags, Python ABI, pybind11 release, and the hash of each file.

    Folders, mtimes, job counts, the compiler's path and the rest of the environment have no part in it.
    """
    parts = {
        "recipe": _RECIPE,
        "compiler": toolchain.identity,
        "GPU compiler": toolchain.gpu.identity if toolchain.gpu else "",
        "compiler flags": "\0".join(toolchain.compile_flags),
        "linker flags": "\0".join(toolchain.link_flags),
        "Python": python_abi(),
        "pybind11": metadata.version("pybind11"),
    }
    built = (file for file in files if not file.path.startswith(_NOT_BUILT))
    return parts | {file.path: _digest(file.text) for file in built}


def key_of(parts: Mapping[str, str]) -> str:
    """Return the hex SHA-256 over named parts."""
    return _digest(json.dumps(dict(parts), sort_keys=True))


def build_key(files: Iterable[GeneratedFile], toolchain: Toolchain) -> str:
    """Return the build key of a tree's files and the tools that compile them: the hash of `key_parts`."""
    return key_of(key_parts(files, toolchain))
