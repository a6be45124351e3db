"""How tokens are drawn, as options of commands that generate text."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import click

from strata_runtime.params import SamplingParams

_Function = TypeVar("_Function", bound=Callable[..., object])

_OPTIONS: tuple[tuple[str, type[int | float], str], ...] = (
    ("--temperature", float, "0 takes the most probable token."),
    ("--top-k", int, "Draw from the K most probable tokens; 0 is all."),
    ("--top-p", float, "Draw from the most probable tokens that reach this probability; 1 is all."),
    ("--min-p", float, "Drop tokens less probable than this part of the best one's probability."),
    ("--repetition-penalty", float, "Above 1, tokens that occurred become less probable."),
)


def sampling_options(defaults: SamplingParams, seed_help: str) -> Callable[[_Function], _Function]:
    """Add the options to a command, `--seed` last."""

    def add(command: _Function) -> _Function:
        command = click.option(
            "--seed", type=int, default=defaults.seed, show_default=True, metavar="N", help=seed_help
        )(command)
        for flag, type_, text in reversed(_OPTIONS):
            default = getattr(defaults, flag.removeprefix("--").replace("-", "_"))
            metavar = "N" if type_ is int else "X"
            command = click.option(flag, type=type_, default=default, show_default=True, metavar=metavar, help=text)(
                command
            )
        return command

    return add


def take_sampling(given: dict[str, Any]) -> SamplingParams:
    """Take the options out of a command's parameters. Raises `UserError` for a value out of its range."""
    return SamplingParams(**{field.name: given.pop(field.name) for field in dataclasses.fields(SamplingParams)})
