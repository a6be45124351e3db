"""A kernels package as a wheel of its own: one distribution per target, found by its entry point."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from strata_gen import __version__
from strata_gen.artifact import content_files, damage
from strata_gen.errors import GeneratorError
from strata_gen.paths import project_root
from strata_gen.resolve import Plan
from strata_gen.wheel.archive import Wheel, entry_points
from strata_gen.wheel.elf import SharedObject, read_shared_object
from strata_gen.wheel.metadata import LICENSE_FILE, metadata_text
from strata_gen.wheel.platform_tag import platform_tag
from strata_gen.write import MANIFEST

ENTRY_POINTS = "strata.kernels"
RUNTIME = "strata-runtime"


def distribution_name(package: str) -> str:
    """Return the distribution of an import package: `strata-kernels-cuda-sm86`."""
    return package.replace("_", "-")


def install_command(package: str) -> str:
    """Return the command that installs the kernels of this version for one target."""
    return f"pip install {distribution_name(package)}=={__version__}"


def python_tag() -> str:
    """Return the tags of interpreter and ABI, such as `cp311-cp311`."""
    version = sysconfig.get_python_version().replace(".", "")
    threading = "t" if sysconfig.get_config_var("Py_GIL_DISABLED") else ""
    return f"cp{version}-cp{version}{threading}"


def refuse_for_this_machine(plan: Plan) -> None:
    """Raise `GeneratorError` for a target that is what this machine happens to be: a wheel is for others."""
    if plan.target.native:
        level = plan.levels[0].name
        raise GeneratorError(
            f"{plan.target.backend} {plan.target.name} is whatever this machine is, and a wheel is for others",
            mend=f"strata-gen wheel --target {plan.target.backend} {level}",
        )


def find_module(package: Path) -> Path:
    """Return the compiled module of a package."""
    return next(package.glob("_native*.so"))


def read_module(package: Path) -> SharedObject:
    """Read the compiled module of a package."""
    path = find_module(package)
    return read_shared_object(path.read_bytes(), str(path))


def kernels_wheel(plan: Plan, package: Path, module: SharedObject) -> Wheel:
    """Return the wheel of a built package. Raises `GeneratorError` when the package is not what was built."""
    if problem := damage(package):
        raise GeneratorError(f"the built package is damaged: {problem}", where=str(package), mend="build it again")
    name, target = distribution_name(plan.package), plan.target
    files = {
        f"{plan.package}/{path.relative_to(package).as_posix()}": path.read_bytes() for path in content_files(package)
    }
    files[f"{plan.package}/{MANIFEST}"] = (package / MANIFEST).read_bytes()
    summary = f"Kernels of strata for {target.backend} {target.name}: {target.help}"
    points = {ENTRY_POINTS: {name.removeprefix("strata-kernels-"): plan.package}}
    information = {
        "METADATA": metadata_text(name, __version__, summary, [f"{RUNTIME}=={__version__}"]),
        "entry_points.txt": entry_points(points),
        f"licenses/{LICENSE_FILE}": (project_root() / LICENSE_FILE).read_bytes(),
    }
    return Wheel(name, __version__, f"{python_tag()}-{platform_tag(module)}", files, information)
