"""Hints for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable


def nearest(word: str, candidates: Iterable[str]) -> str | None:
    """Return the candidate that is most like `word`, None when none is near."""
    import difflib  # most programs misspell nothing, and every one pays for imports

    return next(iter(difflib.get_close_matches(word, list(candidates), n=1)), None)


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for the nearest candidate, or an empty string when none is near."""
    near = nearest(word, candidates)
    return f"; did you mean '{near}'?" if near else ""
