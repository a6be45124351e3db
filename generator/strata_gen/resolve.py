"""Stage 3: one target and one set of build-time values, settled."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from strata_gen.diagnostics import did_you_mean
from strata_gen.errors import GeneratorError
from strata_gen.host import HostCpu, best_level, read_host
from strata_gen.load.scalars import AmbiguousScalar, resolve_plain
from strata_gen.model.knob import Affects, Knob, KnobValue
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend, Target
from strata_gen.model.values import BadValue, value_for

_CUDA_VARIANT = re.compile(r"(sm_[0-9]+)([af])")


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be generated: the specs, one concrete target, and the value of every `affects: compile` knob."""

    specs: SpecSet
    target: Target
    compile_values: Mapping[str, KnobValue]

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
        return f"'{name}' is refused: kernels use no instruction of the '{match[2]}' variant, and would run on less"
    processor, colon, features = name.partition(":")
    if backend is Backend.HIP and colon and processor in known:
        return f"'{name}' is refused: code is built for every setting of {features.replace(':', ', ')} at once"
    return None


def _unknown_target(specs: SpecSet, backend: Backend, name: str, known: Mapping[str, Target]) -> GeneratorError:
    where = f"--target {backend} {name}"
    plain = re.split(r"[:af]", name)[0] if backend is Backend.CUDA else name.partition(":")[0]
    if reason := _variant_refusal(backend, name, known):
        return GeneratorError(reason, where=where, mend=f"--target {backend} {plain}")
    for other in specs.targets:
        if name in (other.name, *other.aliases):
            right = f"--target {other.backend} {other.name}"
            return GeneratorError(f"{name} is a {other.backend} target, not a {backend} one", where=where, mend=right)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.4)
    names = ", ".join(target.name for target in targets_in_order(dict.fromkeys(known.values())))
    return GeneratorError(
        f"unknown {backend} target '{name}'" + (f": the nearest is {known[near[0]].name}" if near else ""),
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


def find_target(specs: SpecSet, backend: str, name: str, host: HostCpu | None = None) -> Target:
    """Return the target that `--target BACKEND NAME` means; `name` may be an alias.

    A `native` target gets exactly the best level of `host` (default: this machine). Raises `GeneratorError` for
    backends and names that are not declared, for a target of another backend, and for architecture suffixes.
    """
    kind = _find_backend(backend)
    known = {
        known_as: target
        for target in specs.targets
        if target.backend is kind
        for known_as in (target.name, *target.aliases)
    }
    if name not in known:
        raise _unknown_target(specs, kind, name, known)
    target = known[name]
    return _settle_native(target, host or read_host()) if target.native else target


def _set_value(knob: Knob, text: str) -> KnobValue:
    where = f"--set {knob.name}={text}"
    if knob.affects is not Affects.COMPILE:
        raise GeneratorError(
            f"'{knob.name}' is no build-time knob: it is read when strata runs",
            where=where,
            mend=f"leave it out here, and run with {knob.env}={text} or {knob.flag} {text}",
        )
    try:
        return value_for(knob, resolve_plain(text))
    except (AmbiguousScalar, BadValue) as problem:
        hint = getattr(problem, "hint", "")
        raise GeneratorError(f"'{knob.name}' cannot be set: {problem}", where=where, mend=hint) from None


def _unknown_knob(name: str, knobs: Mapping[str, Knob]) -> GeneratorError:
    build_time = [knob.name for knob in knobs.values() if knob.affects is Affects.COMPILE]
    listed = f"build-time knobs are {', '.join(build_time)}" if build_time else "there are no build-time knobs"
    return GeneratorError(f"unknown knob '{name}'", where=f"--set {name}", mend=did_you_mean(name, knobs) or listed)


def make_plan(specs: SpecSet, target: Target, set_values: Mapping[str, str]) -> Plan:
    """Settle every build-time knob: `--set` over the target's own default over the knob's default.

    Values of `set_values` are text, read as a plain YAML scalar is. Raises `GeneratorError` for knobs that are not
    declared or not read at build time, and for values that do not fit.
    """
    knobs = {knob.name: knob for knob in specs.knobs}
    unknown = next((name for name in set_values if name not in knobs), None)
    if unknown is not None:
        raise _unknown_knob(unknown, knobs)
    given = {name: _set_value(knobs[name], text) for name, text in set_values.items()}
    values: dict[str, KnobValue] = {}
    for knob in specs.knobs:
        if knob.affects is Affects.COMPILE:
            default = target.knob_default(knob.name)
            values[knob.name] = given.get(knob.name, value_for(knob, default.value) if default else knob.default)
    return Plan(specs, target, values)
