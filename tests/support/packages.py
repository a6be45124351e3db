"""Kernels packages that hold no kernels: whole, sealed, and as misfitting as a test wants them."""

from __future__ import annotations

import sysconfig
from collections.abc import Mapping
from pathlib import Path

from strata_gen.artifact import seal
from strata_runtime import __version__
from strata_runtime.native import ABI_VERSION

FILES = {
    "__init__.py": "",
    "settings.py": "KNOBS = ()\nclass Settings: pass\n",
    "families.py": "FAMILIES = ()\n",
    "formats.py": "FORMATS = ()\n",
    "_native.py": f"ABI_VERSION = {ABI_VERSION}\nISA = 'pretended'\n",
}


def make_package(
    folder: Path, backend: str = "cpu", arch: str = "x", files: Mapping[str, str] = FILES, **facts: object
) -> Path:
    """Write and seal a package under `folder`; `facts` replace those of its manifest."""
    package = folder / f"strata_kernels_{backend}_{arch.replace('_', '')}"
    package.mkdir(parents=True)
    for name, text in files.items():
        (package / name).write_text(text, encoding="utf-8")
    ordinary = {
        "package": package.name,
        "backend": backend,
        "arch": arch,
        "key": "0123",
        "generator": __version__,
        "python_abi": sysconfig.get_config_var("SOABI"),
        "abi_version": ABI_VERSION,
        "runs_on": [arch],
        "not_on": [],
        "cpu_flags": [],
    }
    seal(package, {**ordinary, **facts})
    return package
