"""What must hold of a kernels wheel before it is written."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from pathlib import Path

from strata_gen.errors import GeneratorError
from strata_gen.import_check import import_check, runs_here
from strata_gen.progress import Reporter
from strata_gen.resolve import Plan
from strata_gen.wheel.archive import Wheel, record_paths
from strata_gen.wheel.code_objects import architectures
from strata_gen.wheel.elf import SharedObject
from strata_gen.wheel.platform_tag import foreign_libraries

MIB = 1 << 20
SIZE_LIMIT_MIB = 100
"""What package indexes take of one file, unless asked for more."""

# Mangled namespaces, and C names, of torch's libraries.
_TORCH = ("_ZN5torch", "_ZNK5torch", "_ZN3c10", "_ZNK3c10", "_ZN2at", "_ZNK2at", "aoti_torch", "THP", "THC")


def check_module(module: SharedObject, plan: Plan) -> None:
    """Raise `GeneratorError` when a module has code for other architectures, or needs what machines may lack."""
    name = f"{plan.target.backend} {plan.target.name}"
    if foreign := foreign_libraries(module.needed):
        raise GeneratorError(
            f"the module of {name} needs {', '.join(foreign)}: it could not be imported where that is missing",
            mend="link it statically, or load it when it is first used",
        )
    torch = sorted(symbol for symbol in module.imported | module.exported if symbol.startswith(_TORCH))
    if torch:
        raise GeneratorError(f"the module of {name} has symbols of torch, such as {torch[0]}")
    found = architectures(module)
    declared = frozenset() if plan.host is plan.target else frozenset({plan.target.name})
    if found != declared:
        raise GeneratorError(
            f"the module of {name} has device code for {', '.join(sorted(found)) or 'nothing'}, "
            f"and is declared for {', '.join(declared) or 'CPUs alone'}"
        )


def check_size(wheel: Wheel, data: bytes, limit_mib: int) -> None:
    """Raise `GeneratorError` when a wheel is larger than the limit, naming what is largest in it."""
    if len(data) <= limit_mib * MIB:
        return
    path, content = max(wheel.files.items(), key=lambda item: len(item[1]))
    raise GeneratorError(
        f"{wheel.filename} has {len(data) / MIB:.1f} MiB, the limit is {limit_mib} MiB",
        where=f"{path}, {len(content) / MIB:.1f} MiB before compression",
        mend="build fewer instances (compile-time knobs), or raise the limit: --max-mib N",
    )


def check_disjoint(wheel: Wheel, folder: Path) -> None:
    """Raise `GeneratorError` when another of our wheels in the folder has a file at the same place."""
    for path in sorted(folder.glob("strata_*.whl")):
        if path.name.partition("-")[0] == wheel.name.replace("-", "_"):
            continue
        if both := sorted(record_paths(path) & wheel.files.keys()):
            raise GeneratorError(f"{wheel.filename} and {path.name} both hold {both[0]}", where=str(folder))


def check_import(data: bytes, plan: Plan, log: Path, reporter: Reporter) -> None:
    """Import the package out of the wheel, with no GPU and no home to write to. Raises `BuildFailure`."""
    if not runs_here(plan, reporter):
        return
    nowhere = f"{os.devnull}/home"  # a path that nobody can make, root neither
    environ = {"PATH": os.environ.get("PATH", ""), "HOME": nowhere, "XDG_CACHE_HOME": nowhere}
    hidden = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "", "ROCR_VISIBLE_DEVICES": ""}
    with tempfile.TemporaryDirectory() as folder:
        zipfile.ZipFile(io.BytesIO(data)).extractall(folder)
        import_check(plan, Path(folder) / plan.package, log, {**environ, **hidden})
