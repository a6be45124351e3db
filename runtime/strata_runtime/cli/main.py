"""The `strata` command line: a group that imports a command's module when the command is used.

Only click is imported here: `strata --help` answers from the table below.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

import click

from strata_runtime import __version__
from strata_runtime.cli.shortage import is_shortage, shortage_line
from strata_runtime.cli.streams import standard_streams
from strata_runtime.errors import UserError

EXIT_USER_ERROR = 2
EXIT_INTERRUPTED = 130


class Entry(NamedTuple):
    """One command: `module:attribute` of the click command, and the line that `--help` shows."""

    target: str
    help: str


COMMANDS: Mapping[str, Entry] = {
    "generate": Entry("strata_runtime.cli.generate:command", "Write text with a model, streaming."),
    "serve": Entry("strata_runtime.cli.serve:command", "Serve a model: OpenAI's API and a page."),
    "bench": Entry("strata_runtime.cli.bench:command", "Measure a model's speed, and what limits it."),
    "bench serve": Entry("strata_runtime.cli.bench_serve:command", "Measure what requests feel of each other."),
    "ab": Entry("strata_runtime.cli.ab:command", "Compare settings: speed, drafts, and distance."),
    "convert": Entry("strata_runtime.cli.convert:command", "Pack a model folder into one GGUF file."),
    "profile": Entry("strata_runtime.cli.profile:command", "Write how often each expert is chosen."),
    "eval": Entry("strata_runtime.cli.eval:command", "Judge an approximation by log-probabilities."),
    "info": Entry("strata_runtime.cli.info:command", "Show what is installed, how it is set, and what a model needs."),
}


class LazyGroup(click.Group):
    """A group whose commands are named in a table and imported on use. A name may have two words: `bench serve`."""

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
        if (both := " ".join(args[:2])) in self.table:
            args = [both, *args[2:]]
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
            if name.startswith(incomplete) and " " not in name
        ]
        return names + click.Command.shell_complete(self, ctx, incomplete)

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; errors that a user can mend become one message and exit code 2."""
        try:
            return super().invoke(ctx)
        except UserError as problem:
            click.echo(f"Error: {problem}", err=True)
            ctx.exit(EXIT_USER_ERROR)
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(EXIT_INTERRUPTED)
        except Exception as problem:
            if not is_shortage(problem):
                raise
        # Behind the clause: the traceback, and with it all that the failed work still held, is gone.
        click.echo(f"Error: {shortage_line()}", err=True)
        raise click.exceptions.Exit(EXIT_USER_ERROR)


@click.group(
    cls=LazyGroup,
    table=COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="strata")
def group() -> None:
    """Run mixture-of-experts language models on generated kernels."""


def main() -> None:
    """Entry point of the `strata` script."""
    with standard_streams():
        group.main(prog_name="strata")
