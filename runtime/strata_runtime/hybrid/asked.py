"""What the knobs ask of windows, as far as it can be told without a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_runtime.errors import UserError

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


def shares_out(settings: Settings) -> bool:
    """Whether the experts of windows are shared out between a device half and a host half."""
    verify, expert = settings.verify, settings.expert
    return verify.defer_cpu != "0" or verify.device_plan or expert.cache > 0 or expert.pcie_frac != 0


def trims(settings: Settings) -> bool:
    """Whether windows leave out some of their experts."""
    return settings.verify.ecap is not None or settings.route.tail_skip > 0


def require_width(settings: Settings, tokens: int, option: str) -> None:
    """Raise `UserError` for windows of more tokens than the device kernels take that these settings call.

    `option`: what named the width, for messages.
    """
    most = settings.window.max_tokens
    if tokens > most and (shares_out(settings) or trims(settings)):
        raise UserError(f"{option}: {too_wide(tokens, most)}")


def too_wide(tokens: int, most: int) -> str:
    """Say why a window is refused."""
    return (
        f"a window of {tokens} tokens is more than the {most} that this package's device kernels take: rebuild it with "
        f"--set window.max_tokens={tokens}"
    )
