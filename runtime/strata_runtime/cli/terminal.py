"""What a command says besides its result: lines on stderr, and progress on a terminal."""

from __future__ import annotations

import sys
from time import monotonic

import click

from strata_runtime.progress import Progress

_QUIET_FOR_S = 0.3
_EVERY_S = 0.1


class Terminal:
    """Says lines on stderr, nothing when `quiet`. Progress is shown on terminals only, and replaced by what follows."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._shown = False

    def say(self, line: str) -> None:
        """Write one line."""
        self.clear()
        if not self._quiet:
            click.echo(line, err=True)

    def progress(self, what: str) -> Progress | None:
        """Return a callback that shows `what 3/7` while something takes long; None where nobody would see it."""
        if self._quiet or not sys.stderr.isatty():
            return None
        began = last = monotonic()

        def show(done: int, total: int) -> None:
            nonlocal last
            now = monotonic()
            if done == total:
                self.clear()
            elif now - began > _QUIET_FOR_S and now - last > _EVERY_S:
                last = now
                self._shown = True
                click.echo(f"\r{what} {done}/{total}\x1b[K", err=True, nl=False)

        return show

    def clear(self) -> None:
        """Remove the progress that is shown."""
        if self._shown:
            self._shown = False
            click.echo("\r\x1b[K", err=True, nl=False)
