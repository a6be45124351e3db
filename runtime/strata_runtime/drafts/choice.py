"""Drafter and widths, as the knobs of the window say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_runtime.drafts.drafter import Drafter, NoDrafts
from strata_runtime.drafts.mtp import MtpDrafter
from strata_runtime.drafts.ngram import NgramDrafter
from strata_runtime.drafts.width import FixedWidth, MeasuredWidth, Width
from strata_runtime.errors import UserError
from strata_runtime.layers.mtp import Mtp

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


def make_drafter(settings: Settings, mtp: Mtp | None, capacity: int) -> Drafter:
    """Make the drafter of one text of at most `capacity` tokens. `mtp`: the model's layer, when it was asked for."""
    if mtp is not None:
        return MtpDrafter(mtp, capacity)
    return NgramDrafter(settings.window.ngram_least) if settings.window.draft == "ngram" else NoDrafts()


def make_width(settings: Settings) -> Width:
    """Make what chooses the widths of windows. Raises `UserError` for one that the package's kernels do not take."""
    window = settings.window
    if window.width > window.max_tokens:
        raise UserError(
            f"window.width is {window.width}, and this package's kernels take windows of at most {window.max_tokens} "
            f"tokens: rebuild it with --set window.max_tokens={window.width}"
        )
    if window.draft == "none":
        return FixedWidth(1)
    return FixedWidth(window.width) if window.width else MeasuredWidth(window.max_tokens)
