"""Bytes in words."""

from __future__ import annotations

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def size(count: float) -> str:
    """Write a count of bytes shortly, e.g. `21.8 MiB`."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count, unit = count / 1024, unit + 1
    return f"{count:.1f} {_UNITS[unit]}" if unit else f"{count:.0f} B"
