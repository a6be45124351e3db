"""Finds a kernels package, checks that it is whole and fits, and loads what it holds.

A package is looked for where `STRATA_PROVIDER_PATH` points, else among installed ones (entry points
`strata.kernels`), else in the `build` folder of the checkout, else in `./build`; one for this machine's GPU is taken
before one for CPUs. Nothing of it is imported before its manifest was checked: loading a truncated or foreign shared
object can crash the interpreter.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from strata_runtime.amd_gpus import visible_amd_gpus
from strata_runtime.discovery import Found, built, installed
from strata_runtime.errors import UserError
from strata_runtime.families import FamilyInfo
from strata_runtime.fit import Fit
from strata_runtime.gpus import visible_gpus
from strata_runtime.knobs import KnobInfo
from strata_runtime.knobs.grammar import show
from strata_runtime.knobs.startup import startup_line
from strata_runtime.manifest import MANIFEST, Damaged, Manifest, build_command, check_files, misfit, read_manifest
from strata_runtime.native import ABI_VERSION, NativeModule, Pool
from strata_runtime.preference import Candidate, by_preference
from strata_runtime.repair import rebuild
from strata_runtime.signals import SignalInfo

if TYPE_CHECKING:
    from strata_runtime._settings import Settings
    from strata_runtime.formats import FormatInfo

PATH_VARIABLE = "STRATA_PROVIDER_PATH"
DEFAULT_BUILD = build_command("cpu", "native")
_LOG = logging.getLogger("strata_runtime")


@dataclass(frozen=True)
class Provider:
    """One kernels package. Its modules are imported when they are first asked for.

    `why` says why it was chosen.
    """

    name: str
    backend: str
    arch: str
    folder: Path
    manifest: Manifest
    why: str

    @cached_property
    def _package(self) -> str:
        loaded = sys.modules.get(self.name)
        if loaded is not None and list(getattr(loaded, "__path__", ())) != [str(self.folder)]:
            for name in [name for name in sys.modules if name == self.name or name.startswith(f"{self.name}.")]:
                del sys.modules[name]
            loaded = None
        if loaded is None:
            spec = importlib.util.spec_from_file_location(
                self.name, self.folder / "__init__.py", submodule_search_locations=[str(self.folder)]
            )
            assert spec is not None
            assert spec.loader is not None
            module = importlib.util.module_from_spec(spec)
            sys.modules[self.name] = module
            spec.loader.exec_module(module)
        return self.name

    def _module(self, name: str) -> ModuleType:
        try:
            return importlib.import_module(f"{self._package}.{name}")
        # Tables of another runtime's types are a TypeError.
        except (ImportError, OSError, TypeError) as problem:
            raise UserError(
                f"{self.folder}: '{name}' cannot be loaded: {problem}; rebuild it: {self.manifest.build_command}"
            ) from problem

    @cached_property
    def knobs(self) -> tuple[KnobInfo, ...]:
        """Every knob of the package."""
        return self._module("settings").KNOBS  # type: ignore[no-any-return]

    @cached_property
    def settings_type(self) -> type[Settings]:
        """The generated class `Settings`."""
        return self._module("settings").Settings  # type: ignore[no-any-return]

    @cached_property
    def families(self) -> tuple[FamilyInfo, ...]:
        """Every model family of the package."""
        return self._module("families").FAMILIES  # type: ignore[no-any-return]

    @cached_property
    def formats(self) -> tuple[FormatInfo, ...]:
        """Every weight format of the package."""
        return self._module("formats").FORMATS  # type: ignore[no-any-return]

    @cached_property
    def signals(self) -> tuple[SignalInfo, ...]:
        """Every signal between the halves of a window."""
        return self._module("signals").SIGNALS  # type: ignore[no-any-return]

    @cached_property
    def unified_memory(self) -> bool:
        """Whether the target's device and the host share one physical memory."""
        return self._module("target").UNIFIED_MEMORY  # type: ignore[no-any-return]

    @cached_property
    def native(self) -> NativeModule:
        """The compiled module. Raises `UserError` when it speaks another version of the protocol."""
        module: Any = self._module("_native")
        if module.ABI_VERSION != ABI_VERSION:
            raise UserError(
                f"{self.folder}: the module has ABI version {module.ABI_VERSION}, this runtime needs {ABI_VERSION}: "
                f"rebuild it: {self.manifest.build_command}"
            )
        return module  # type: ignore[no-any-return]


def native_knobs(provider: Provider, settings: Settings) -> list[tuple[str, str]]:
    """Return every knob with a value, as the native parser reads it: native code knows which of them it uses."""
    texts = (
        (knob.name, show(knob, getattr(getattr(settings, knob.section), knob.attribute)))
        for knob in provider.knobs
        if not knob.is_built_in
    )
    return [(name, text) for name, text in texts if text]


def make_pool(provider: Provider, settings: Settings) -> Pool:
    """Start the workers as the settings say. Raises `UserError` when the system refuses so many threads."""
    try:
        return provider.native.make_pool(native_knobs(provider, settings))
    except RuntimeError as problem:
        raise UserError(
            f"the workers cannot be started: {problem}; lower pool.threads, or raise the limit of threads or memory "
            "(ulimit -u, ulimit -v, or the container's)"
        ) from None


def _open(candidate: Candidate, *, may_rebuild: bool = True) -> Provider:
    """Check one package and make its provider. Raises `UserError` when it is of no use."""
    folder = candidate.folder
    if candidate.misfit:
        raise UserError(f"{folder}: {candidate.misfit}")
    command = DEFAULT_BUILD
    try:
        manifest = read_manifest(folder)
        command = manifest.build_command
        # A package of another version may be whole or not: it must be rebuilt either way.
        if (why := misfit(manifest)) is None:
            check_files(folder, manifest)
    except Damaged as problem:
        if may_rebuild and rebuild(folder, str(problem)):
            return _open(candidate, may_rebuild=False)
        raise UserError(f"{problem}: the kernels package is damaged; build it again: {command}") from None
    if why is not None:
        raise UserError(f"{folder}: the kernels package does not fit: {why}; rebuild it: {command}")
    return Provider(manifest.package, manifest.backend, manifest.arch, folder, manifest, candidate.why)


def _candidates(environ: Mapping[str, str], known: Iterable[Path]) -> list[Candidate]:
    """Return the packages to consider, best first. One that is named is taken whatever the machine has."""
    if named := environ.get(PATH_VARIABLE, "").strip():
        return [Candidate(Path(named).expanduser().absolute(), Fit.EXACT, f"{PATH_VARIABLE} names it")]
    return by_preference(known, {"cuda": visible_gpus, "hip": lambda: visible_amd_gpus(environ)})


@dataclass(frozen=True, slots=True)
class Considered:
    """A package that was considered: its provider, or None and the `problem` with it."""

    found: Found
    provider: Provider | None
    problem: str

    def facts(self) -> dict[str, object]:
        """Return what a program may want to know: what it is, and the reason why it would be taken or cannot be."""
        found, provider = self.found, self.provider
        known = {"folder": str(found.folder), "distributions": list(found.distributions), "clash": found.clash}
        if provider is None:
            return {**known, "usable": False, "reason": self.problem}
        what = {"name": provider.name, "backend": provider.backend, "arch": provider.arch}
        return {**known, "usable": True, "reason": provider.why, **what}


def _found(environ: Mapping[str, str]) -> dict[Path, Found]:
    """Return what is known of the packages that are not named, by folder."""
    if environ.get(PATH_VARIABLE, "").strip():
        return {}
    return {found.folder: found for found in (*installed(), *built())}


def survey(environ: Mapping[str, str]) -> list[Considered]:
    """List every package that is considered, in order of preference, with what is wrong with it. Rebuilds nothing."""
    known, result = _found(environ), []
    for candidate in _candidates(environ, known):
        found = known.get(candidate.folder, Found(candidate.folder))
        try:
            result.append(Considered(found, _open(candidate, may_rebuild=False), ""))
        except UserError as problem:
            result.append(Considered(found, None, str(problem)))
    return result


def _say(lines: Iterable[str]) -> None:
    for line in lines:
        _LOG.warning("%s", startup_line(line))


def _passed_over(candidates: Sequence[Candidate], taken: int, known: Mapping[Path, Found]) -> Iterator[str]:
    """Yield a line for each installed package behind the one that is taken which is not for this machine."""
    for candidate in candidates[taken + 1 :]:
        if candidate.misfit and known[candidate.folder].distributions:
            yield f"passed over {candidate.folder}: {candidate.misfit}"


def find_provider(environ: Mapping[str, str]) -> Provider:
    """Find the kernels package to use. A damaged one of a build folder is moved aside and rebuilt once.

    One line says of each better one, and of each installed one, why it is not taken. Raises `UserError` with the
    reason for each package that was found and is of no use, and the command to build one.
    """
    named, known = environ.get(PATH_VARIABLE, "").strip(), _found(environ)
    candidates = _candidates(environ, known)
    # Unlike Path.exists, no error for a path that cannot be.
    if named and not os.access(candidates[0].folder / MANIFEST, os.R_OK):
        raise UserError(f"{PATH_VARIABLE}={named}: no {MANIFEST} there, so it is no kernels package")
    reasons: list[str] = []
    for taken, candidate in enumerate(candidates):
        try:
            provider = _open(candidate)
        except UserError as problem:
            reasons.append(str(problem))
            continue
        clash = known[candidate.folder].clash if known else ""
        _say(
            (
                *(f"passed over {why}" for why in reasons),
                *_passed_over(candidates, taken, known),
                *filter(None, [clash]),
            )
        )
        return provider
    if reasons:
        raise UserError("\n".join(reasons))
    raise UserError(f"no kernels package is installed or built; build one for this machine: {DEFAULT_BUILD}")
