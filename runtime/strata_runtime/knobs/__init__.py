"""Knobs at run time: from text, files and keyword arguments to one immutable, explained set of settings."""

from strata_runtime.knobs.given import Flags, Given
from strata_runtime.knobs.info import Condition, Implication, KnobInfo, KnobValue, Origin, Range, Source
from strata_runtime.knobs.resolve import Resolution, resolve
from strata_runtime.knobs.scope import scope
from strata_runtime.knobs.startup import startup_line, startup_lines

__all__ = [
    "Condition",
    "Flags",
    "Given",
    "Implication",
    "KnobInfo",
    "KnobValue",
    "Origin",
    "Range",
    "Resolution",
    "Source",
    "resolve",
    "scope",
    "startup_line",
    "startup_lines",
]
