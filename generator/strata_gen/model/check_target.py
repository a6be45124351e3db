"""What targets can get wrong beyond one file: names that clash or lead nowhere, defaults that no knob takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from strata_gen.diagnostics import Note, Sink, Span, did_you_mean
from strata_gen.model.knob import Knob
from strata_gen.model.specset import SpecSet
from strata_gen.model.target import Backend, Target
from strata_gen.model.values import BadValue, value_for


def _names(target: Target) -> Iterator[tuple[str, Span]]:
    yield target.name, target.span
    yield from ((alias, target.aliases_span) for alias in target.aliases)


def _check_names(targets: tuple[Target, ...], sink: Sink) -> None:
    """A backend's names and aliases are one name space, and two backends do not share a name either."""
    seen: dict[str, tuple[Target, Span]] = {}
    for target in sorted(targets, key=lambda target: target.span):
        for name, span in _names(target):
            if name in seen:
                other, first = seen[name]
                message = f"'{name}' names two targets: {other.backend} {other.name} and {target.backend} {target.name}"
                sink.error("T031", message, span, notes=(Note("the first one", first),))
            seen.setdefault(name, (target, span))


def _check_runs_on(target: Target, names: Mapping[str, Target], sink: Sink) -> None:
    for name in target.runs_on:
        if name not in names:
            message = f"'runs_on' of target '{target.name}' names '{name}', which is no {target.backend} target"
            sink.error("T027", message, target.runs_on_span, did_you_mean(name, names))


def _check_knob_defaults(target: Target, knobs: Mapping[str, Knob], sink: Sink) -> None:
    for default in target.knob_defaults:
        if default.knob not in knobs:
            message = f"target '{target.name}' sets a default for '{default.knob}', which is no knob"
            sink.error("T032", message, default.span, did_you_mean(default.knob, knobs))
            continue
        try:
            value_for(knobs[default.knob], default.value)
        except BadValue as problem:
            message = f"target '{target.name}' cannot set '{default.knob}': {problem}"
            sink.error("T033", message, default.span, problem.hint)


def _check_host(target: Target, cpus: Mapping[str, Target], sink: Sink) -> None:
    if not target.host:
        return
    if target.host not in cpus:
        message = f"'host' of target '{target.name}' names '{target.host}', which is no cpu target"
        sink.error("T036", message, target.host_span, did_you_mean(target.host, cpus))
    elif cpus[target.host].native:
        message = (
            f"'host' of target '{target.name}' names '{target.host}', whose levels are those of the CPU that builds"
        )
        sink.error("T036", message, target.host_span)


def check_targets(specs: SpecSet, sink: Sink) -> None:
    """Report what is wrong with the targets of `specs` taken together (codes T027, T031 to T033, T036)."""
    _check_names(specs.targets, sink)
    knobs = {knob.name: knob for knob in specs.knobs}
    cpus = {target.name: target for target in specs.targets if target.backend is Backend.CPU}
    for target in specs.targets:
        names = {other.name: other for other in specs.targets if other.backend is target.backend}
        _check_runs_on(target, names, sink)
        _check_knob_defaults(target, knobs, sink)
        _check_host(target, cpus, sink)
