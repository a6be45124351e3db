"""Commands that take every knob of the kernels package as an option."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from strata_runtime.errors import UserError
from strata_runtime.knobs import Given
from strata_runtime.knobs.flags import command_line, knob_options
from strata_runtime.provider import PATH_VARIABLE, Provider, find_provider

_PATH_FLAG = "--provider-path"
_KEY = "strata_runtime.package"


@dataclass(frozen=True, slots=True)
class Package:
    """The kernels package that a command found, or why there is none; `environ` leads to it."""

    provider: Provider | None
    problem: str
    environ: Mapping[str, str]

    def require(self) -> Provider:
        """Return the package. Raises `UserError` when there is none."""
        if self.provider is None:
            raise UserError(self.problem)
        return self.provider


def _path_given(args: Sequence[str]) -> str | None:
    """Find the package's folder among arguments that cannot be parsed yet: its knobs are options too."""
    for at, arg in enumerate(args):
        if arg == _PATH_FLAG and at + 1 < len(args):
            return args[at + 1]
        if arg.startswith(f"{_PATH_FLAG}="):
            return arg.partition("=")[2]
    return None


def _find(args: Sequence[str]) -> Package:
    path = _path_given(args)
    environ = dict(os.environ) if path is None else {**os.environ, PATH_VARIABLE: path}
    try:
        return Package(find_provider(environ), "", environ)
    except UserError as problem:
        return Package(None, str(problem), environ)


class KnobCommand(click.Command):
    """A command with one more option per knob of the kernels package, listed in a section of their own."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Find the package, then parse with its knobs."""
        package = ctx.meta[_KEY] = _find(args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as problem:
            if package.provider is not None or ctx.resilient_parsing:
                raise
            # It may be a knob: without a package nobody knows.
            raise UserError(
                f"{problem.format_message()} Knobs are known only with a package: {package.problem}"
            ) from None

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the command's own parameters, then the knobs."""
        return [*super().get_params(ctx), *_options(ctx)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the knobs."""
        own = [record for param in super().get_params(ctx) if (record := param.get_help_record(ctx)) is not None]
        with formatter.section("Options"):
            formatter.write_dl(own)
        knobs = [record for option in _options(ctx) if (record := option.get_help_record(ctx)) is not None]
        package = ctx.meta[_KEY]
        with formatter.section("Knobs"):
            if package.provider is None:
                formatter.write_text(f"Known once there is a kernels package: {package.problem}")
            else:
                formatter.write_dl(knobs)


def _options(ctx: click.Context) -> list[click.Option]:
    package: Package | None = ctx.meta.get(_KEY)
    return knob_options(package.provider.knobs) if package is not None and package.provider is not None else []


def package_and_flags(ctx: click.Context, parameters: Mapping[str, object]) -> tuple[Package, dict[str, str | Given]]:
    """Return the running command's package, and the texts of the knobs among its parameters, by dotted name."""
    package: Package = ctx.meta[_KEY]
    return package, {} if package.provider is None else dict(command_line(package.provider.knobs, parameters))
