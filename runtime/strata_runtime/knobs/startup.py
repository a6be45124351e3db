"""The lines that a program prints to stderr when it starts."""

from __future__ import annotations

from collections.abc import Iterator

from strata_runtime.knobs.grammar import show
from strata_runtime.knobs.info import KnobInfo
from strata_runtime.knobs.resolve import Resolution


def startup_line(text: str) -> str:
    """Return a line that says `text` at the start, whoever has to say it: a knob, or the model with these settings."""
    return f"strata: {text}"


def startup_lines(resolution: Resolution, *, version: str, target: str, package: str) -> tuple[str, ...]:
    """Return the start-up lines.

    The first names the version, the target (`cpu native`), the package id, and the knobs that are not at their declared
    default, each with its source. One line follows for each value that was ignored, replaced or turned off, and then
    those that knobs have to say about their values.
    """
    first = f"strata {version} | {target} | {package}"
    settings = ", ".join(_setting(resolution, knob) for knob in resolution.differing())
    lines = (*resolution.lines, *_said(resolution))
    return (f"{first} | {settings}" if settings else first, *map(startup_line, lines))


def _said(resolution: Resolution) -> Iterator[str]:
    for knob in resolution.knobs:
        is_set = resolution.sources[knob.name].source.is_set
        for condition in knob.says:
            if condition.holds(resolution.values):
                line = condition.note.replace("{value}", show(knob, resolution.values[knob.name]))
                is_default = not is_set and line != condition.note
                yield f"{knob.name}: {line}{' (the default)' if is_default else ''}"


def _setting(resolution: Resolution, knob: KnobInfo) -> str:
    value = show(knob, resolution.values[knob.name]) or "unset"
    return f"{knob.name}={value} ({resolution.sources[knob.name].source.label})"
