"""Knobs as options of a click command. Texts are passed on as they are: `grammar` alone reads them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from strata_runtime.knobs.grammar import range_text, show
from strata_runtime.knobs.info import KnobInfo

_METAVARS = {
    "int": "N",
    "float": "X",
    "bytes": "SIZE",
    "duration": "TIME",
    "str": "TEXT",
    "path": "PATH",
    "list": "A,B",
}


def knob_options(knobs: Iterable[KnobInfo]) -> list[click.Option]:
    """Return one option per knob that can be set at run time; their parameters are named by the knobs' fields."""
    return [_option(knob) for knob in knobs if not knob.is_built_in]


def command_line(knobs: Iterable[KnobInfo], parameters: Mapping[str, object]) -> dict[str, str]:
    """Return the texts that were given, by dotted name, from a command's parameters by field name."""
    given = ((knob.name, parameters.get(knob.field)) for knob in knobs)
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in given
        if value is not None
    }


def _option(knob: KnobInfo) -> click.Option:
    if knob.type == "bool":
        declaration = f"{knob.flag}/--no-{knob.flag.removeprefix('--')}"
        return click.Option([declaration, knob.field], default=None, help=_help(knob))
    return click.Option(
        [knob.flag, knob.field],
        default=None,
        help=_help(knob),
        metavar="|".join([*dict(knob.words), _METAVARS[knob.type]]) if knob.type in _METAVARS else None,
        type=_parameter_type(knob),
    )


def _parameter_type(knob: KnobInfo) -> click.Choice[str] | click.Path | click.types.StringParamType:
    match knob.type:
        case "enum":
            return click.Choice(knob.choices)
        case "path":
            return click.Path()  # for completion of file names
        case _:
            return click.STRING


def _help(knob: KnobInfo) -> str:
    facts = [f"default: {show(knob, knob.default) or 'unset'}", knob.env]
    if bounds := range_text(knob.type, knob.range):
        facts.insert(1, ", or ".join([bounds, *dict(knob.words)]))
    return f"{knob.help}  [{'; '.join(facts)}]"
