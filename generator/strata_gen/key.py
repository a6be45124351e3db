"""The build key: one hash over everything that decides what the compiled package does, and over nothing else."""

from __future__ import annotations

import hashlib
import sysconfig
from collections.abc import Iterable
from importlib import metadata

from strata_gen.emitter import GeneratedFile
from strata_gen.toolchain import Toolchain

# Raise it when the way a package is built changes without the tree showing it.
_RECIPE = "2"
# In the tree for use by hand or for tests, but not in the package.
_NOT_BUILT = ("tests/", "CMakePresets.json")


def python_abi() -> str:
    """Return the tag of extension modules for this interpreter, e.g. `cpython-311-x86_64-linux-gnu`."""
    return str(sysconfig.get_config_var("SOABI"))


def build_key(files: Iterable[GeneratedFile], toolchain: Toolchain) -> str:
    """Return the hex SHA-256 over tree contents, compilers, flags, Python ABI and pybind11 release.

    Folders, mtimes, job counts, the compiler's path and the rest of the environment have no part in it.
    """
    parts = [
        _RECIPE,
        toolchain.identity,
        toolchain.gpu.identity if toolchain.gpu else "",
        "\0".join(toolchain.compile_flags),
        "\0".join(toolchain.link_flags),
        python_abi(),
        metadata.version("pybind11"),
    ]
    for file in sorted(files, key=lambda file: file.path):
        if not file.path.startswith(_NOT_BUILT):
            parts += [file.path, file.text]
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()
