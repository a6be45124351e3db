"""The engine of a command: the model that it names, on the package and knobs of its command line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from strata_runtime.cli.knob_command import Package
from strata_runtime.cli.terminal import Terminal

if TYPE_CHECKING:
    from strata_runtime.engine import Engine


def load_engine(model: str, package: Package, flags: Mapping[str, str], terminal: Terminal) -> Engine:
    """Load a model, with progress and start-up lines on the terminal. Raises `UserError`."""
    from strata_runtime.engine import Engine  # torch: not for --help

    return Engine.load(
        model,
        environ=package.environ,
        flags=flags,
        provider=package.require(),
        progress=terminal.progress("loading layer"),
        report=terminal.say,
    )
