"""Hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest candidate, or an empty string when none is near."""
    import difflib

    near = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""
