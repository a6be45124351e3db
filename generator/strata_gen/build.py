"""From a rendered tree to an importable package: cached, compiled and checked."""

from __future__ import annotations

import shutil
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Literal

from strata_gen import __version__
from strata_gen.artifact import damage, put_in_place, read_facts, seal
from strata_gen.cache import ArtifactCache, open_cache
from strata_gen.errors import GeneratorError
from strata_gen.gpu_compiler import GpuCompiler, check_gpu_compiler, find_gpu_compiler
from strata_gen.hip_compiler import find_hip_compiler
from strata_gen.import_check import check_package
from strata_gen.jobs import default_jobs
from strata_gen.key import key_of, key_parts, python_abi
from strata_gen.layout import Layout
from strata_gen.locks import held
from strata_gen.model.target import Backend, Target, show_version
from strata_gen.native_build import NativeBuild
from strata_gen.progress import Reporter
from strata_gen.record import BuildRecord, compile_seconds
from strata_gen.reemit import write_reemit
from strata_gen.resolve import Plan
from strata_gen.toolchain import Toolchain, check_toolchain, find_toolchain
from strata_gen.tree import Tree
from strata_gen.views.package import PYTHON_FOLDER, is_native_source
from strata_gen.write import write_tree


@dataclass(frozen=True, slots=True)
class BuildRequest:
    """What to build and how. `jobs` None: as many as cores and memory allow.

    `emit_command` repeats the emission: Ninja runs it when it is called by hand and an input has changed.
    """

    tree: Tree
    layout: Layout
    jobs: int | None = None
    use_cache: bool = True
    verbose: bool = False
    emit_command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BuildResult:
    """What a build did. `compiled` and `sources` are paths in the tree; both are empty unless `how` is `built`."""

    package: str
    path: Path
    key: str
    how: Literal["built", "cached", "current"]
    compiled: tuple[str, ...]
    sources: tuple[str, ...]
    seconds: float

    def render(self) -> str:
        """Return the closing line."""
        key = f"key {self.key[:12]}"
        match self.how:
            case "current":
                return f"{self.package}: up to date ({key})"
            case "cached":
                return f"{self.package}: from the artifact cache in {self.seconds:.1f} s ({key})"
            case "built":
                count = f"{len(self.compiled)} of {len(self.sources)} files compiled"
                return f"built {self.package} in {self.seconds:.1f} s: {count} ({key})"


def refuse_without_package(plan: Plan) -> None:
    """Raise `GeneratorError` for a target that there are no packages for: its spec names no CPU beside the GPU."""
    if plan.host is not None:
        return
    name = f"{plan.target.backend} {plan.target.name}"
    raise GeneratorError(
        f"there are no packages for {name}: its spec has no 'host', the CPU target whose kernels are beside the GPU's",
        where=str(plan.target.span),
        mend=f"add 'host: x86-64-v2' there; 'strata-gen emit --target {name}' writes what exists",
    )


def require_python_headers() -> None:
    """Raise `GeneratorError` when this interpreter's C headers are not installed."""
    include = Path(sysconfig.get_path("include"))
    if not (include / "Python.h").is_file():
        raise GeneratorError(
            "Python's C headers are missing",
            where=str(include / "Python.h"),
            mend="install them: Debian and Ubuntu 'apt-get install python3-dev', Fedora 'dnf install python3-devel'",
        )


def find_device_compiler(target: Target, environ: Mapping[str, str]) -> GpuCompiler:
    """Find the compiler of a GPU target's device code and check it against the specs. Raises `GeneratorError`."""
    found = find_hip_compiler(environ, target) if target.backend is Backend.HIP else find_gpu_compiler(environ)
    check_gpu_compiler(found, target)
    return found


def target_toolchain(plan: Plan, environ: Mapping[str, str]) -> Toolchain:
    """Find the target's compilers and check them against the specs. Raises `GeneratorError`."""
    target, host = plan.target, plan.host
    assert host is not None
    flags = (*host.architecture_flags, *host.flags, *(flag for level in host.levels for flag in level.flags))
    toolchain = find_toolchain(environ, flags if any("native" in flag for flag in flags) else ())
    check_toolchain(toolchain, host)
    if target.backend is Backend.CPU:
        return toolchain
    return replace(toolchain, gpu=find_device_compiler(target, environ))


def _not_on(plan: Plan) -> list[str]:
    """Return the declared targets of the backend whose devices the package is not for."""
    others = (target.name for target in plan.specs.targets if target.backend is plan.target.backend)
    return sorted(name for name in others if name not in plan.target.runs_on)


def _facts(request: BuildRequest, toolchain: Toolchain, key: str, seen: Mapping[str, object]) -> dict[str, object]:
    plan = request.tree.plan
    return {
        "package": plan.package,
        "backend": str(plan.target.backend),
        "arch": plan.target.name,
        "key": key,
        "generator": __version__,
        "python_abi": python_abi(),
        "pybind11": metadata.version("pybind11"),
        "compiler": f"{toolchain.family} {show_version(toolchain.version)} {toolchain.machine}",
        "gpu_compiler": f"{toolchain.gpu.family} {show_version(toolchain.gpu.version)}" if toolchain.gpu else "",
        "compile_knobs": dict(plan.compile_values),
        "runs_on": list(plan.target.runs_on),
        "not_on": _not_on(plan),
        "cpu_flags": list(plan.levels[0].cpu_flags),
        **seen,
    }


def _assemble(request: BuildRequest, module: Path) -> Path:
    """Put the package together beside its final place; return its folder."""
    layout, plan = request.layout, request.tree.plan
    package = layout.root / "assemble" / plan.package
    shutil.rmtree(package.parent, ignore_errors=True)
    shutil.copytree(layout.tree / PYTHON_FOLDER, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy2(module, package / module.name)
    return package


class _Builder:
    """One build of one request, with the tree's lock held."""

    def __init__(
        self, request: BuildRequest, toolchain: Toolchain, environ: Mapping[str, str], reporter: Reporter
    ) -> None:
        self.request, self.toolchain, self.environ, self.reporter = request, toolchain, environ, reporter
        self.started = time.monotonic()
        self.parts = key_parts(request.tree.files, toolchain)
        self.key = key_of(self.parts)
        self.package = request.tree.plan.package
        self.destination = request.layout.package / self.package

    def result(
        self,
        how: Literal["built", "cached", "current"],
        compiled: tuple[str, ...] = (),
        sources: tuple[str, ...] = (),
    ) -> BuildResult:
        seconds = time.monotonic() - self.started
        return BuildResult(self.package, self.destination, self.key, how, compiled, sources, seconds)

    def is_current(self) -> bool:
        facts = read_facts(self.destination)
        if facts is None or facts.get("key") != self.key:
            return False
        problem = damage(self.destination)
        if problem is not None:
            self.reporter.say(f"the built package is damaged ({problem}): replacing it")
        return problem is None

    def run(self, cache: ArtifactCache | None) -> BuildResult:
        tree = self.request.tree
        write_tree(self.request.layout.tree, tree.files, tree.target, tree.spec_hash)
        if self.is_current():
            return self.result("current")
        if cache is None:
            return self.compile()
        with held(cache.lock(self.key), f"building {self.package} (key {self.key[:12]})", self.reporter):
            stored = cache.find(self.key, self.package, self.reporter)
            if stored is not None:
                put_in_place(stored, self.destination)
                return self.result("cached")
            result = self.compile()
            self.store(cache)
            return result

    def store(self, cache: ArtifactCache) -> None:
        try:
            record = BuildRecord(
                self.package, self.parts, compile_seconds(self.request.layout.cmake), self.module_bytes()
            )
            cache.store(self.key, self.destination, record)
        except OSError as problem:
            self.reporter.say(f"not stored in the artifact cache: {problem.strerror} ({problem.filename})")

    def module_bytes(self) -> int:
        return next(self.destination.glob("_native*.so")).stat().st_size

    def compile(self) -> BuildResult:
        request = self.request
        native = NativeBuild(request.layout, self.toolchain, self.environ, self.reporter, request.verbose)
        native.log.unlink(missing_ok=True)
        native.configure(write_reemit(request.layout, request.emit_command, request.tree.inputs))
        compiled = native.compile(request.jobs or default_jobs())
        package = _assemble(request, native.module())
        with self.reporter.step(lambda: "checking that the package imports"):
            seen = check_package(request.tree, package, native.log, self.reporter)
        seal(package, _facts(request, self.toolchain, self.key, seen))
        put_in_place(package, self.destination)
        shutil.rmtree(package.parent, ignore_errors=True)
        sources = tuple(file.path for file in request.tree.files if is_native_source(file.path))
        return self.result("built", compiled, sources)


def build(request: BuildRequest, reporter: Reporter, environ: Mapping[str, str]) -> BuildResult:
    """Build one package, or take it from the cache, or find that it is there already.

    Raises `GeneratorError` for what the user can mend and `BuildFailure` when compiling or importing fails.
    """
    refuse_without_package(request.tree.plan)
    toolchain = target_toolchain(request.tree.plan, environ)
    require_python_headers()
    cache = open_cache(environ, reporter) if request.use_cache else None
    with held(request.layout.lock, f"building {request.tree.target}", reporter):
        try:
            return _Builder(request, toolchain, environ, reporter).run(cache)
        except OSError as problem:
            raise GeneratorError(
                f"cannot write the package: {problem.strerror}",
                where=str(problem.filename or request.layout.root),
                mend="free some space, or name a folder that you may write to with --out DIR",
            ) from problem
