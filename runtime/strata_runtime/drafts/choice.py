"""Drafter and width of a generation, as the knobs of the window say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strata_runtime.drafts.drafter import Drafter, NoDrafts
from strata_runtime.drafts.ngram import NgramDrafter
from strata_runtime.drafts.width import FixedWidth, MeasuredWidth, Width

if TYPE_CHECKING:
    from strata_runtime._settings import Settings


def make_drafter(settings: Settings) -> Drafter:
    """Make the drafter of one text."""
    window = settings.window
    return NgramDrafter(window.ngram_least) if window.draft == "ngram" else NoDrafts()


def make_width(settings: Settings) -> Width:
    """Make what chooses the widths of one text's windows."""
    window = settings.window
    if window.draft == "none":
        return FixedWidth(1)
    return FixedWidth(window.width) if window.width else MeasuredWidth()
