"""Stage 3: one target and one set of build-time values, settled."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import takewhile

from strata_gen.amd_gpus import TOPOLOGY, visible_amd_gpus
from strata_gen.build_values import read_set_values, settle_build_values
from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError
from strata_gen.gpus import visible_gpus
from strata_gen.host import HostCpu, best_level, read_host
from strata_gen.model.knob import KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend, CpuLevel, Target

_NATIVE = "native"
_CUDA_VARIANT = re.compile(r"(sm_[0-9]+)([af])")


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be generated: the specs, one concrete target, and the value of every `affects: compile` knob."""

    specs: SpecSet
    target: Target
    compile_values: Mapping[str, KnobValue]

    @property
    def host(self) -> Target | None:
        """The CPU target whose levels the package has: itself, or the one that a GPU target names; None without one."""
        if self.target.backend is Backend.CPU:
            return self.target
        return next((target for target in self.specs.targets if target.name == self.target.host), None)

    @property
    def levels(self) -> tuple[CpuLevel, ...]:
        """The micro-kernel levels in the package, weakest first."""
        return self.host.levels if self.host else ()

    @property
    def package(self) -> str:
        """Import name of the kernels package, e.g. `strata_kernels_cpu_native`."""
        return package_name(self.target)


def package_name(target: Target) -> str:
    """Return the import name of a target's kernels package."""
    return f"strata_kernels_{target.backend}_{target.package_suffix}"


def natural_key(name: str) -> tuple[tuple[int, str], ...]:
    """Sort key under which sm_90 comes before sm_100."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def targets_in_order(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Return targets by backend (cpu, cuda, hip), then CPUs weakest first and GPUs by the number in their name."""

    def key(target: Target) -> tuple[object, ...]:
        strength = len(target.levels[0].cpu_flags) if target.levels else 0
        return target.backend, target.native, strength, natural_key(target.name)

    return tuple(sorted(targets, key=key))


def _find_backend(name: str) -> Backend:
    if name in tuple(Backend):
        return Backend(name)
    hint = did_you_mean(name, Backend).removesuffix("?")
    raise GeneratorError(
        f"unknown backend '{name}'" + (f": {hint}?" if hint else ""),
        where=f"--target {name}",
        mend=f"backends are {', '.join(sorted(Backend))}",
    )


def _variant_refusal(backend: Backend, name: str, known: Mapping[str, Target]) -> str | None:
    """Say why an architecture with a suffix is refused; None when `name` is no such thing."""
    if backend is Backend.CUDA and (match := _CUDA_VARIANT.fullmatch(name)) and match[1] in known:
        return f"'{name}' is refused: its code would run on that variant only, and no kernel needs the '{match[2]}'"
    processor, colon, features = name.partition(":")
    if backend is Backend.HIP and colon and processor in known:
        settings = " and ".join(re.findall(r"[a-z0-9]+", features)) or "a feature"
        return f"'{name}' is refused: code is built to run with {settings} on or off"
    return None


def _nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the name that begins most alike, among those the most similar; architectures are numbered that way."""

    def likeness(other: str) -> tuple[int, float]:
        common = takewhile(lambda pair: pair[0] == pair[1], zip(name, other, strict=False))
        return len(list(common)), difflib.SequenceMatcher(None, name, other).ratio()

    similar = [other for other in known if likeness(other)[1] > 0.4]
    return max(similar, key=likeness, default=None)


def _unknown_target(specs: SpecSet, backend: Backend, name: str, known: Mapping[str, Target]) -> GeneratorError:
    where = f"--target {backend} {name}"
    plain = re.split(r"[:af]", name)[0] if backend is Backend.CUDA else name.partition(":")[0]
    if reason := _variant_refusal(backend, name, known):
        return GeneratorError(reason, where=where, mend=f"--target {backend} {plain}")
    for other in specs.targets:
        if name in (other.name, *other.aliases):
            right = f"--target {other.backend} {other.name}"
            return GeneratorError(f"{name} is a {other.backend} target, not a {backend} one", where=where, mend=right)
    near = _nearest(name, known)
    names = ", ".join(target.name for target in targets_in_order(dict.fromkeys(known.values())))
    return GeneratorError(
        f"unknown {backend} target '{name}'" + (f": the nearest is {known[near].name}" if near else ""),
        where=where,
        mend=f"{backend} targets are {names}",
    )


def _settle_native(target: Target, host: HostCpu) -> Target:
    level = best_level(target.levels, host)
    if level is None:
        weakest = target.levels[0]
        lacking = "" if not host.flags else f"; {weakest.name} also needs {', '.join(host.missing(weakest))}"
        raise GeneratorError(
            f"this CPU ({host.name}, {host.machine}) runs none of the micro-kernel levels{lacking}",
            where=f"--target {target.backend} {target.name}",
            mend="build for a named target, on any machine, and run it on an x86-64 CPU",
        )
    return replace(target, levels=(level,), dot=level.dot)


def _native_gpu(backend: Backend, known: Mapping[str, Target], environ: Mapping[str, str]) -> Target:
    """Return the target of this machine's GPUs, which are all of one architecture."""
    where = f"--target {backend} {_NATIVE}"
    gpus = visible_gpus(environ) if backend is Backend.CUDA else visible_amd_gpus(TOPOLOGY)
    archs = sorted({gpu.arch for gpu in gpus}, key=natural_key)
    if len(archs) > 1:
        raise GeneratorError(
            f"this machine's GPUs are of several architectures: {', '.join(archs)}",
            where=where,
            mend=f"name those to build for: --target {backend} {' '.join(archs)}",
        )
    if archs[0] not in known:
        raise GeneratorError(f"there is no {backend} target for this machine's {gpus[0]}", where=where)
    return known[archs[0]]


def find_target(specs: SpecSet, backend: str, name: str, host: HostCpu | None = None) -> Target:
    """Return the target that `--target BACKEND NAME` means; `name` may be an alias.

    A `native` target gets exactly the best level of `host` (default: this machine); `native` of CUDA and HIP is the
    target of this machine's GPUs. Raises `GeneratorError` for backends and names that are not declared, for a target of
    another backend, for architecture suffixes, and when there is no GPU to ask.
    """
    kind = _find_backend(backend)
    known = {
        known_as: target
        for target in specs.targets
        if target.backend is kind
        for known_as in (target.name, *target.aliases)
    }
    if kind is not Backend.CPU and name == _NATIVE:
        return _native_gpu(kind, known, os.environ)
    if name not in known:
        raise _unknown_target(specs, kind, name, known)
    target = known[name]
    return _settle_native(target, host or read_host()) if target.native else target


def make_plan(specs: SpecSet, target: Target, set_values: Mapping[str, str]) -> Plan:
    """Settle every build-time knob for `target`.

    Values of `set_values` are text, read as a plain YAML scalar is. Raises `GeneratorError` for knobs that are not
    declared or not read at build time, for values that do not fit, and for relations that do not hold.
    """
    given = read_set_values(specs.knobs, set_values)
    return Plan(specs, target, settle_build_values(specs.knobs, target, given))
