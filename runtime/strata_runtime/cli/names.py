"""One of several names as an option, with a hint for a misspelt one."""

from __future__ import annotations

from collections.abc import Sequence

import click

from strata_runtime.nearest import did_you_mean


class Name(click.Choice[str]):
    """A choice whose message names the nearest of the names."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._names = names

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:
        """Say what there is, and what may have been meant."""
        return f"{super().get_invalid_choice_message(value, ctx).rstrip('.')}{did_you_mean(str(value), self._names)}"
