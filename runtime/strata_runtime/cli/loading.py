"""The engine of a command: the model that it names, on the package and knobs of its command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_runtime.cli.knob_command import Package
from strata_runtime.cli.terminal import Terminal
from strata_runtime.hybrid.asked import require_width
from strata_runtime.knobs import Flags, resolve

if TYPE_CHECKING:
    from strata_runtime.engine import Engine


def load_engine(
    model: str, package: Package, flags: Flags, terminal: Terminal, *, writes_logpos: bool = False
) -> Engine:
    """Load a model, with progress and start-up lines on the terminal; see `Engine.load`. Raises `UserError`."""
    from strata_runtime.engine import Engine  # torch: not for --help

    return Engine.load(
        model,
        environ=package.environ,
        flags=flags,
        provider=package.require(),
        progress=terminal.progress("loading layer"),
        report=terminal.say,
        writes_logpos=writes_logpos,
    )


def check_window(package: Package, flags: Flags, tokens: int, option: str) -> None:
    """Raise `UserError` for a width of windows that the package does not take as the knobs are set.

    Before the model is loaded. `option`: what named the width, for messages.
    """
    provider = package.require()
    resolution = resolve(provider.knobs, environ=package.environ, command_line=flags)
    require_width(provider.settings_type.from_values(resolution.values), tokens, option)
