"""The share of experts that the device reads from the host, so that neither half waits long for the other."""

from __future__ import annotations

_LONG = 0.02  # of a window
_GAIN = 0.5
_MOST, _BACK = 1 / 8, 1 / 128


class Balance:
    """Follows the two halves' times. `share`: from 0 to 1.

    A device that waits for the CPU's rows reads too little itself, and takes more: half of the share of the window that
    it waited, an eighth at most. One that does not wait at all may be what the CPU waits for: it gives some back.
    """

    def __init__(self, share: float) -> None:
        self.share = share

    def follow(self, waited: float, seconds: float) -> float:
        """Return the next window's share, after one that took `seconds`, for `waited` of which the device waited."""
        part = waited / seconds if seconds > 0 else 0.0
        step = min(_MOST, _GAIN * part) if part > _LONG else -_BACK
        self.share = min(1.0, max(0.0, self.share + step))
        return self.share


def share_of(device_rate: float, host_rate: float) -> float:
    """Return the share that lets both end together, of what each reads in a second."""
    both = device_rate + host_rate
    return device_rate / both if both > 0 else 0.0
