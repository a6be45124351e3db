"""The `strata-gen` command line: a group that imports a command's module when the command is used.

Only click is imported here: `strata-gen --help` answers from the table below.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click

from strata_gen import __version__
from strata_gen.cli.streams import standard_streams
from strata_gen.diagnostics import RENDERERS, SpecErrors
from strata_gen.errors import GeneratorError

FORMAT_KEY = "strata_gen.format"
"""Key in `click.Context.meta` under which `--format` is kept for the rendering of `SpecErrors`."""

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


class Entry(NamedTuple):
    """One command: `module:attribute` of the click command, and the line that `--help` shows."""

    target: str
    help: str


COMMANDS: Mapping[str, Entry] = {
    "build": Entry("strata_gen.cli.build:command", "Emit, compile and import-check the kernels package of one target."),
    "cache": Entry("strata_gen.cli.cache:command", "List, verify, prune or clear the cache of built packages."),
    "check": Entry("strata_gen.cli.check:command", "Read every spec and report all that is wrong."),
    "describe": Entry("strata_gen.cli.describe:command", "Explain every part of a kernel's name."),
    "doctor": Entry("strata_gen.cli.doctor:command", "Show what building and running needs, and what is missing."),
    "emit": Entry("strata_gen.cli.emit:command", "Write the generated sources of one target, compiling nothing."),
    "explain": Entry("strata_gen.cli.explain:command", "Say what an error code means, by example."),
    "knobs": Entry("strata_gen.cli.knobs:command", "List every knob with its variable, flag, type and default."),
    "new": Entry("strata_gen.cli.new:command", "Write a new spec entry, such as a knob."),
    "plan": Entry("strata_gen.cli.plan:command", "Show what a build of one target would do, and why."),
    "reference": Entry("strata_gen.cli.reference:command", "Write the reference pages from the specs."),
    "schema": Entry("strata_gen.cli.schema:command", "Write the JSON Schema of every kind of spec."),
    "targets": Entry("strata_gen.cli.targets:command", "Show the support matrix: every kernel on every target."),
    "wheel": Entry("strata_gen.cli.wheel:command", "Write kernels packages, the runtime and the generator as wheels."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on use."""

    def __init__(self, *, table: Mapping[str, Entry], **settings: object) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names in the order of the table."""
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command; None when the table does not know it."""
        entry = self.table.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.target.partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does; an unknown command's message names the nearest one."""
        if args and not args[0].startswith("-") and args[0] not in self.table:
            near = difflib.get_close_matches(args[0], self.table, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"No such command '{args[0]}'.{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command list from the table, importing nothing."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.help) for name, entry in self.table.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        """Complete command names from the table, and options as click does."""
        names = [
            click.shell_completion.CompletionItem(name, help=entry.help)
            for name, entry in self.table.items()
            if name.startswith(incomplete)
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors that a user can mend become text and exit code 2."""
        try:
            return super().invoke(ctx)
        except SpecErrors as problem:
            form = ctx.meta.get(FORMAT_KEY, "text")
            # Tools read the machine formats from stdout, as they read a command's other results.
            click.echo(RENDERERS[form](problem), err=form == "text")
            ctx.exit(EXIT_USER_ERROR)
        except GeneratorError as problem:
            click.echo(problem.render(), err=True)
            ctx.exit(EXIT_USER_ERROR)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="strata-gen")
def group() -> None:
    """Turn declarative specs into a native runtime for one hardware target."""


def main() -> None:
    """Entry point of the `strata-gen` script."""
    with standard_streams():
        group.main(prog_name="strata-gen")
