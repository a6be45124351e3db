"""What building and running needs, what of it is here, and how to get the rest."""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from importlib import metadata

from strata_gen.amd_gpus import TOPOLOGY, visible_amd_gpus
from strata_gen.build import refuse_without_package, require_python_headers, target_toolchain
from strata_gen.cache import cache_root
from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import find_gpu_compiler
from strata_gen.gpus import visible_gpus
from strata_gen.hip_compiler import find_hip_compiler
from strata_gen.host import best_level, read_host
from strata_gen.model.target import Backend
from strata_gen.native_build import CMAKE_MINIMUM
from strata_gen.resolve import Plan
from strata_gen.toolchain import find_toolchain
from strata_gen.tools import find_tool

_RUNTIME = ("torch", "numpy", "tokenizers", "gguf", "click")
_CPU_TORCH, _ROCM_TORCH = "+cpu", "+rocm"
_ROCM_BUILDS = "PyTorch's build for ROCm (https://pytorch.org/get-started/locally)"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is looked for: what was found, or what is wrong and the command or the place that mends it."""

    name: str
    found: str
    problem: str = ""
    mend: str = ""

    @property
    def is_fine(self) -> bool:
        """Whether it is there and can be used."""
        return not self.problem


def _asked(name: str, ask: Callable[[], object]) -> Finding:
    try:
        return Finding(name, str(ask()))
    except GeneratorError as problem:
        where = f" ({problem.where})" if problem.where else ""
        return Finding(name, "", f"{problem.what}{where}", problem.mend)


def _python() -> str:
    require_python_headers()
    return f"{platform.python_version()} with its C headers ({sys.executable})"


def _cpu(plans: tuple[Plan, ...]) -> str:
    host = read_host()
    levels = max((plan.levels for plan in plans), key=len, default=())
    level = best_level(levels, host)
    return f"{host.name}, {host.machine}" + (f", micro-kernel level {level.name}" if level else "")


def _package(name: str) -> Finding:
    try:
        return Finding(name, metadata.version(name))
    except metadata.PackageNotFoundError:
        return Finding(name, "", f"the Python package {name} is not installed", f"pip install {name}")


def _torch_for(backends: Set[Backend]) -> Finding:
    found = _package("torch")
    if Backend.HIP in backends and found.is_fine and _ROCM_TORCH not in found.found:
        return Finding("torch", found.found, f"torch {found.found} is not built for ROCm", f"install {_ROCM_BUILDS}")
    if backends <= {Backend.CPU} or not found.found.endswith(_CPU_TORCH):
        return found
    release = found.found.removesuffix(_CPU_TORCH)
    problem = f"torch {found.found} is built for CPUs alone"
    return Finding("torch", found.found, problem, f"pip install --force-reinstall torch=={release}")


def machine(plans: tuple[Plan, ...], environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield what this machine has. What is missing here is no problem until a target needs it."""
    yield _asked("python", _python)
    yield _asked("cpu", lambda: _cpu(plans))
    yield _asked("c++", lambda: find_toolchain(environ))
    yield _asked("nvcc", lambda: find_gpu_compiler(environ))
    if hip := next((target for plan in plans for target in plan.specs.targets if target.backend is Backend.HIP), None):
        yield _asked("clang", lambda: find_hip_compiler(environ, hip))
    yield _asked("cmake", lambda: find_tool("cmake", CMAKE_MINIMUM))
    yield _asked("ninja", lambda: find_tool("ninja"))
    yield _asked("gpu", lambda: ", ".join(map(str, visible_gpus(environ))))
    yield _asked("amd gpu", lambda: ", ".join(map(str, visible_amd_gpus(TOPOLOGY))))
    yield _asked("cache", lambda: cache_root(environ))
    backends = {plan.target.backend for plan in plans}
    for name in _RUNTIME:
        yield _torch_for(backends) if name == "torch" else _package(name)


def buildable(plan: Plan, environ: Mapping[str, str]) -> Finding:
    """Say whether a target can be built here, and with what."""

    def ask() -> str:
        refuse_without_package(plan)
        require_python_headers()
        find_tool("cmake", CMAKE_MINIMUM)
        find_tool("ninja")
        return f"can be built with {target_toolchain(plan, environ)}"

    return _asked(f"{plan.target.backend} {plan.target.name}", ask)
